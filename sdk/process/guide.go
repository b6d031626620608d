package process

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/sdk"
)

// guide is the client of a test that simulates the peers of this process. The test returns the addresses to
// connect to instead of the real ones. It is nil outside of tests.
type guide struct {
	at    string // the address of the test
	hello abi.GuideAnswer
}

const guidePatience = 10 * time.Second

// newGuide returns the guide of the test at an address, nil if the address is "".
func newGuide(at string) (*guide, error) {
	if at == "" {
		return nil, nil
	}
	g := &guide{at: at}
	ctx, cancel := context.WithTimeout(context.Background(), guidePatience)
	defer cancel()
	var err error
	if g.hello, err = g.ask(ctx, abi.GuideQuestion{Ask: abi.GuideHello}); err != nil {
		return nil, fmt.Errorf("%s: %w", abi.GuideEnv, err)
	}
	return g, nil
}

// host returns the host functions of an attempt. kept is its key-value store.
func (g *guide) host(kept map[string][]byte) sdk.Host {
	h := sdk.Host{KV: kept}
	if g != nil {
		h.Dial, h.Handshake, h.DNSServers = g.dial, g.handshake, g.hello.DNSServers
	}
	return h
}

func (g *guide) ask(ctx context.Context, q abi.GuideQuestion) (a abi.GuideAnswer, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", g.at)
	if err != nil {
		return a, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := json.NewEncoder(conn).Encode(q); err != nil {
		return a, cmp.Or(ctx.Err(), err)
	}
	if err := json.NewDecoder(conn).Decode(&a); err != nil {
		return a, cmp.Or(ctx.Err(), err)
	}
	return a, nil
}

// guided is a connection to a simulated peer.
type guided struct {
	net.Conn
	dialled string // the host that the plugin has dialled
	name    string // the name of the peer in its certificate
}

// dial implements [sdk.Host.Dial]. It tries the addresses one after the other, each with an equal share of
// the remaining time.
func (g *guide) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	a, err := g.ask(ctx, abi.GuideQuestion{Ask: abi.GuideDial, Network: network, Addr: addr})
	if err != nil {
		return nil, fmt.Errorf("dial %s %s: %w", network, addr, err)
	}
	told, _, err := net.SplitHostPort(addr)
	if err != nil {
		told = ""
	}
	fault := &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{Err: a.Error, Name: told, IsNotFound: true}}
	for i, at := range a.At {
		conn, err := dialOne(ctx, network, at, len(a.At)-i)
		if err == nil {
			return &guided{conn, told, a.Name}, nil
		}
		if e, ok := errors.AsType[*net.OpError](err); ok {
			err = e.Err // without the address of the test
		}
		fault.Addr, fault.Err = address{network, addr}, err
	}
	return nil, fault
}

// address is the address that the plugin has dialled.
type address struct{ network, addr string }

func (a address) Network() string { return a.network }
func (a address) String() string  { return a.addr }

func dialOne(ctx context.Context, network, at string, shares int) (net.Conn, error) {
	if at == "" {
		return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(shares))
		defer cancel()
	}
	return new(net.Dialer).DialContext(ctx, network, at)
}

// handshake implements [sdk.Host.Handshake]. It also trusts the certificates of the test, and expects the
// names in them.
func (g *guide) handshake(ctx context.Context, raw net.Conn, config *tls.Config) (net.Conn, error) {
	config = config.Clone()
	if config.RootCAs == nil {
		config.RootCAs = x509.NewCertPool()
	}
	config.RootCAs.AppendCertsFromPEM([]byte(g.hello.CA))
	conn, ok := raw.(*guided)
	if ok && config.ServerName == conn.dialled {
		config.ServerName = conn.name
	}
	secured := tls.Client(raw, config)
	err := secured.HandshakeContext(ctx)
	if err == nil {
		return secured, nil
	}
	if why, askErr := g.ask(ctx, abi.GuideQuestion{Ask: abi.GuideHandshake, Addr: raw.LocalAddr().String()}); askErr == nil && why.Error != "" {
		return nil, errors.New(why.Error)
	}
	return nil, err
}
