package process

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
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
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/pluginpb"
	"github.com/daeace23/prober/plugin"
)

// instance is one process and the connection to it. Its fields are read-only once [start] has
// returned it.
type instance struct {
	client  *goplugin.Client
	child   *child
	conn    *grpc.ClientConn
	rpc     pluginpb.PluginClient
	about   *pluginpb.DescribeResponse
	streams sync.WaitGroup // reads the output that comes through go-plugin
	since   time.Time
	used    atomic.Bool // it was sent a request
	// missedAt is the age of the process when it first failed to accept a request, in nanoseconds. It
	// is 0 if the process accepted the last request.
	missedAt atomic.Int64
	folder   string // holds the socket
}

// start starts a process of h and requests its description. The caller stops the instance.
func start(ctx context.Context, h *Handler, program *sealed.Copy) (*instance, error) {
	if err := program.Check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, h.cfg.StartTimeout)
	defer cancel()
	in := &instance{child: newChild(program, h.newLines()), since: time.Now()}
	config, err := in.config(&h.cfg)
	if err != nil {
		in.child.finish()
		return nil, err
	}
	in.client = goplugin.NewClient(config) // a client starts only one process
	err = in.connect(ctx, config)
	if err == nil {
		err = in.describe(ctx, h)
	}
	if err != nil {
		err = h.launch.explain(h.path, in.explain(ctx, err))
		in.stop(false)
		return nil, err
	}
	return in, nil
}

// config returns the configuration of go-plugin. The process gets no variable of this program's
// environment.
func (in *instance) config(cfg *Config) (*goplugin.ClientConfig, error) {
	certificate, err := pluginpb.NewCertificate()
	if err != nil {
		return nil, err
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	return &goplugin.ClientConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion: pluginpb.ProtocolVersion, MagicCookieKey: pluginpb.CookieKey, MagicCookieValue: pluginpb.CookieValue,
		},
		Plugins: goplugin.PluginSet{},
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, folder string) (runner.Runner, error) {
			in.folder = folder
			in.child.cmd.Env = append(slices.Concat(cfg.Env, spec.Env), pluginpb.CertificateEnv+"="+string(certPEM), in.child.mark)
			return in.child, nil
		},
		// As AutoMTLS does. go-plugin adds the certificate of the process.
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, ServerName: pluginpb.ServerName},

		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: plugin.SocketTemp()},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		SkipHostEnv:      true,
		StartTimeout:     cfg.StartTimeout,
		Logger:           hclog.NewNullLogger(),
		// Makes the dial in Kill fail, because nothing would close that connection.
		GRPCDialOptions: []grpc.DialOption{grpc.WithDefaultServiceConfig("none")},
	}, nil
}

// connect starts the process and connects to the address in its first line.
func (in *instance) connect(ctx context.Context, config *goplugin.ClientConfig) error {
	defer context.AfterFunc(ctx, in.child.kill)() // Start takes no context
	addr, err := in.client.Start()
	if err != nil {
		return err
	}
	if config.TLSConfig.RootCAs == nil {
		return errors.New("the process does not use TLS")
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

// describe requests the description of the process, and compares it with the manifest.
func (in *instance) describe(ctx context.Context, h *Handler) (err error) {
	in.rpc = pluginpb.NewPluginClient(in.conn)
	if in.about, err = in.rpc.Describe(ctx, &pluginpb.DescribeRequest{Abi: abi.Version, HostVersion: h.cfg.Version}, grpc.WaitForReady(true)); err != nil {
		return err
	}
	if v := in.about.GetAbi(); v != abi.Version {
		return fmt.Errorf("the process uses version %d of the contract, this prober version %d", v, abi.Version)
	}
	own, err := plugin.ParseManifest("manifest of the process", in.about.GetManifest())
	if err != nil {
		return err
	}
	if m := h.manifest; own.Name != m.Name || own.Version != m.Version {
		return fmt.Errorf("the process is %s %s, its manifest that of %s %s", own.Name, own.Version, m.Name, m.Version)
	}
	in.streams.Go(func() { in.followStdio(in.child.lines) })
	// The folder of the socket can be removed, because there is only one connection and it lasts as long
	// as the process. So no file is left if this program is killed.
	return os.RemoveAll(in.folder)
}

// explain returns the cause of a failed start. The error of go-plugin does not contain the exit status.
func (in *instance) explain(ctx context.Context, err error) error {
	if in.child.cmd.Process == nil || isHostTrouble(err) {
		return err
	}
	text := err.Error()
	if ctx.Err() != nil || strings.Contains(text, "timeout while waiting for plugin to start") {
		return errors.New("the process does not serve within the start timeout")
	}
	in.child.awaitEnd(ctx)
	if end := in.child.exitStatus(false); end != "" && !in.child.wasKilled() {
		return fmt.Errorf("the process ended when it started: %s", end)
	}
	if line, known := in.child.firstLine(); known && !isHandshake(line) {
		return fmt.Errorf("the process must print nothing before the handshake of go-plugin, and its standard output begins with %q: write it to standard error",
			clip.Marked(line, maxShownLine, "..."))
	}
	return errors.New(firstLine(text))
}

// maxShownLine is how much of the first line of a process is shown, in bytes.
const maxShownLine = 80

// isHandshake reports whether line is meant as go-plugin's first line, such as "1|1|unix|/tmp/plugin|grpc".
func isHandshake(line string) bool {
	version, _, _ := strings.Cut(line, "|")
	return strings.Count(line, "|") >= 3 && strings.Trim(version, "+-0123456789 ") == ""
}

// shutdownGrace is how long a process may take to end after a shutdown request.
const shutdownGrace = 2 * time.Second

// stop ends the process with all that it has started, and waits for their ends. If gracefully is true, it
// first sends a shutdown request.
func (in *instance) stop(gracefully bool) {
	if gracefully && in.child.ready() {
		in.shutdown()
	}
	in.client.Kill()
	if in.conn != nil {
		_ = in.conn.Close()
	}
	in.streams.Wait()
	in.child.finish()
}

// shutdown sends a shutdown request, as go-plugin's client does, and waits for the end. If the process
// does not implement the request, shutdown closes its standard input instead.
func (in *instance) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	err := in.conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
	if status.Code(err) == codes.Unimplemented { // any other error may mean that the process has ended before it answered
		_ = in.child.stdin.Close()
	}
	select {
	case <-in.child.exited:
	case <-ctx.Done():
	}
}

// followStdio logs the output of a plugin that uses go-plugin's Serve. Serve sends os.Stdout and
// os.Stderr over a stream of the connection. Unless the stream is read, the plugin blocks. followStdio
// returns when the connection is closed, or if the plugin has no such stream.
func (in *instance) followStdio(lines *lineLog) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := in.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/plugin.GRPCStdio/StreamStdio")
	if err != nil || stream.SendMsg(&emptypb.Empty{}) != nil || stream.CloseSend() != nil {
		return
	}
	outputs := map[uint64]*lineWriter{1: lines.writer("stdout"), 2: lines.writer("stderr")}
	for {
		var chunk emptypb.Empty // go-plugin's own type is internal; its fields are kept as unknown fields
		if stream.RecvMsg(&chunk) != nil {
			break
		}
		channel, data := stdioData(chunk.ProtoReflect().GetUnknown())
		if w := outputs[channel]; w != nil {
			_, _ = w.Write(data)
		}
	}
	for _, w := range outputs {
		w.flush()
	}
}

// stdioData decodes a plugin.StdioData: field 1 is the channel, field 2 the data.
func stdioData(message []byte) (channel uint64, data []byte) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return 0, nil
		}
		message = message[n:]
		switch {
		case number == 1 && kind == protowire.VarintType:
			channel, n = protowire.ConsumeVarint(message)
		case number == 2 && kind == protowire.BytesType:
			data, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return 0, nil
		}
		message = message[n:]
	}
	return channel, data
}
