package process

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/daeace23/prober/handlers/process/internal/sealed"
	"github.com/daeace23/prober/handlers/process/internal/sockets"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/pluginpb"
	"github.com/daeace23/prober/plugin"
)

// instance is one process and the connection to it. Its fields are read-only once start
// has returned it.
type instance struct {
	client   *goplugin.Client
	child    *child
	conn     *grpc.ClientConn
	rpc      pluginpb.PluginClient
	about    *pluginpb.DescribeResponse
	streams  sync.WaitGroup // of what it writes by way of go-plugin
	since    time.Time
	used     atomic.Bool  // an attempt was put to it
	missedAt atomic.Int64 // how old it was when it first did not take a question, since it last took one; 0: it does
	sockets  sockets.Folder
}

// launch is what it takes to start an instance.
type launch struct {
	program  *sealed.Copy
	digest   string
	manifest *plugin.Manifest
	cfg      *Config
	lines    *lineLog
}

// start starts a process and asks it what it is. The instance is the caller's to stop.
func start(ctx context.Context, l launch) (*instance, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.StartTimeout)
	defer cancel()
	if err := l.check(); err != nil {
		return nil, err
	}
	process, err := newChild(l.program, l.lines)
	if err != nil {
		return nil, err
	}
	in := &instance{child: process, since: time.Now()}
	config, err := in.config(&l)
	if err != nil {
		process.finish()
		return nil, err
	}
	in.client = goplugin.NewClient(config) // a client starts one process in its life
	err = in.connect(ctx, config)
	if err == nil {
		err = in.describe(ctx, &l)
	}
	if err != nil {
		err = in.explain(ctx, err)
		in.stop(false)
		return nil, err
	}
	return in, nil
}

// check holds the copy that is about to run against its digest, with a hash of its own: a
// SecureConfig is good for one time.
func (l *launch) check() error {
	sum, err := hex.DecodeString(strings.TrimPrefix(l.digest, "sha256:"))
	if err != nil {
		return err
	}
	ok, err := (&goplugin.SecureConfig{Checksum: sum, Hash: sha256.New()}).Check(l.program.Path())
	if err == nil && !ok {
		err = goplugin.ErrChecksumsDoNotMatch
	}
	return err
}

// config configures go-plugin. The process gets nothing of our environment, and our
// end of its standard input in place of our own.
func (in *instance) config(l *launch) (*goplugin.ClientConfig, error) {
	certificate, certPEM, err := newCertificate()
	if err != nil {
		return nil, err
	}
	return &goplugin.ClientConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion: pluginpb.ProtocolVersion, MagicCookieKey: pluginpb.CookieKey, MagicCookieValue: pluginpb.CookieValue,
		},
		Plugins: goplugin.PluginSet{},
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, folder string) (runner.Runner, error) {
			in.sockets = sockets.Keep(folder)
			in.child.cmd.Env = append(slices.Concat(l.cfg.Env, spec.Env), "PLUGIN_CLIENT_CERT="+certPEM, in.child.mark)
			return in.child, nil
		},
		// What AutoMTLS does, with P-256 in place of P-521, which not every gRPC can speak.
		// go-plugin adds the certificate that the process shows.
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, ServerName: "localhost"},

		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: plugin.SocketTemp()},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		SkipHostEnv:      true,
		StartTimeout:     l.cfg.StartTimeout,
		Logger:           hclog.NewNullLogger(),
		// Kill would dial a connection by itself, which nothing closes when the process is gone.
		GRPCDialOptions: []grpc.DialOption{grpc.WithDefaultServiceConfig("none")},
	}, nil
}

// newCertificate makes a certificate for one connection, and its PEM.
func newCertificate() (tls.Certificate, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: now.Add(-time.Minute), NotAfter: now.AddDate(30, 0, 0),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IsCA:        true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(block), nil
}

// connect starts the process and connects to where it says that it listens.
func (in *instance) connect(ctx context.Context, config *goplugin.ClientConfig) error {
	stop := context.AfterFunc(ctx, func() { // Start knows of no context
		_ = in.child.Kill(ctx)
	})
	defer stop()
	addr, err := in.client.Start()
	if err != nil {
		return err
	}
	if config.TLSConfig.RootCAs == nil {
		return errors.New("the process speaks without TLS")
	}
	in.conn, err = grpc.NewClient("passthrough:///plugin",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, addr.Network(), addr.String())
		}),
		grpc.WithIdleTimeout(0),
		grpc.WithMaxHeaderListSize(pluginpb.MaxHeaders),
		grpc.WithTransportCredentials(credentials.NewTLS(config.TLSConfig)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(pluginpb.MaxMessage), grpc.MaxCallSendMsgSize(pluginpb.MaxMessage)),
	)
	return err
}

// describe asks the process what it is, and holds that against its manifest.
func (in *instance) describe(ctx context.Context, l *launch) (err error) {
	in.rpc = pluginpb.NewPluginClient(in.conn)
	if in.about, err = in.rpc.Describe(ctx, &pluginpb.DescribeRequest{Abi: abi.Version, HostVersion: l.cfg.Version}, grpc.WaitForReady(true)); err != nil {
		return err
	}
	if v := in.about.GetAbi(); v != abi.Version {
		return fmt.Errorf("the process speaks version %d of the contract, this prober version %d", v, abi.Version)
	}
	own, err := plugin.ParseManifest("manifest of the process", in.about.GetManifest())
	if err != nil {
		return err
	}
	if m := l.manifest; own.Name != m.Name || own.Version != m.Version {
		return fmt.Errorf("the process says that it is %s %s, its manifest %s %s", own.Name, own.Version, m.Name, m.Version)
	}
	in.streams.Go(func() { in.followStdio(l.lines) })
	// There is one connection as long as the process lives, and nothing to find for others
	// meanwhile, or when this program was killed.
	return in.sockets.Remove()
}

// explain returns why a start has failed: what go-plugin reports of a process that has ended
// is of no help.
func (in *instance) explain(ctx context.Context, err error) error {
	if isHostTrouble(err) {
		return err
	}
	text := err.Error()
	if ctx.Err() != nil || strings.Contains(text, "timeout while waiting for plugin to start") {
		return errors.New("the process does not serve within the time that it has to start")
	}
	in.child.awaitEnd(ctx)
	if end := in.child.exitStatus(nil); end != "" && !in.child.wasKilled() {
		return fmt.Errorf("the process ended when it started: %s", end)
	}
	if strings.HasPrefix(text, "Unrecognized remote plugin message") {
		return errors.New("what the process writes first is no handshake of go-plugin")
	}
	return errors.New(oneLine(text))
}

// ready reports whether the process runs.
func (in *instance) ready() bool {
	select {
	case <-in.child.exited:
		return false
	default:
		return true
	}
}

// shutdownGrace is how long a process may take to end when it is asked to.
const shutdownGrace = 2 * time.Second

// stop ends the process and waits until nothing of it is left. gracefully, it is asked to
// first.
func (in *instance) stop(gracefully bool) {
	if gracefully && in.ready() {
		in.shutdown()
	}
	in.client.Kill()
	_ = in.sockets.Remove() // in most cases for the second time
	if in.conn != nil {
		_ = in.conn.Close()
	}
	in.streams.Wait()
	in.child.finish()
}

// shutdown asks the process to end, as go-plugin's client does, and waits for it. One that
// does not know the question sees by its standard input that nobody is there.
func (in *instance) shutdown() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	half := time.AfterFunc(shutdownGrace/2, func() { // in two parts, for one of which the machine may stand still
		time.AfterFunc(shutdownGrace/2, cancel)
	})
	defer half.Stop()
	err := in.conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
	if status.Code(err) == codes.Unimplemented { // else it may be gone before it has answered
		_ = in.child.stdin.Close()
	}
	select {
	case <-in.child.exited:
	case <-ctx.Done():
	}
}

// followStdio logs what a plugin of go-plugin's Serve writes to its os.Stdout and
// os.Stderr: a stream of their own, which must be read, or the plugin waits for ever. It
// returns when the connection is closed, or the plugin has no such stream.
func (in *instance) followStdio(lines *lineLog) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := in.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/plugin.GRPCStdio/StreamStdio")
	if err != nil || stream.SendMsg(&emptypb.Empty{}) != nil || stream.CloseSend() != nil {
		return
	}
	outputs := make(map[uint64]*io.PipeWriter)
	for channel, name := range map[uint64]string{1: "stdout", 2: "stderr"} {
		r, w := io.Pipe()
		outputs[channel] = w
		in.streams.Go(func() { lines.copy(name, r, stdioRate) })
		defer w.Close()
	}
	for {
		var chunk emptypb.Empty // go-plugin's own type is internal; its fields are kept as unknown ones
		if stream.RecvMsg(&chunk) != nil {
			return
		}
		channel, data := stdioData(chunk.ProtoReflect().GetUnknown())
		if w := outputs[channel]; w != nil {
			_, _ = io.Copy(w, strings.NewReader(data))
		}
	}
}

// stdioData reads a plugin.StdioData: field 1 is the channel, 2 the data.
func stdioData(message []byte) (channel uint64, data string) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return 0, ""
		}
		message = message[n:]
		switch {
		case number == 1 && kind == protowire.VarintType:
			channel, n = protowire.ConsumeVarint(message)
		case number == 2 && kind == protowire.BytesType:
			data, n = protowire.ConsumeString(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return 0, ""
		}
		message = message[n:]
	}
	return channel, data
}
