package wasm_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// watched is a connection that counts the TLS alerts written to it, including blocked writes.
type watched struct {
	net.Conn
	farewells *atomic.Int32
}

func (w *watched) Write(p []byte) (int, error) {
	if !bytes.Contains(debug.Stack(), []byte("closeNotify")) {
		return w.Conn.Write(p)
	}
	w.farewells.Add(1)
	n, err := w.Conn.Write(p)
	if errors.Is(err, net.ErrClosed) {
		w.farewells.Add(-1)
	}
	return n, err
}

// TestTLSEndsWithoutCloseNotify checks that a TLS connection is closed without close_notify at the
// deadline. Writing it could block for five seconds if the peer does not read.
func TestTLSEndsWithoutCloseNotify(t *testing.T) {
	config, _ := secured(t)
	stay := make(chan struct{})
	target := accept(t, func(conn net.Conn) {
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		_ = tls.Server(conn, config).Handshake()
		<-stay
	})
	t.Cleanup(func() { close(stay) })
	for _, isolation := range []plugin.Isolation{plugin.Pooled, plugin.Reset, plugin.Fresh} {
		t.Run(string(isolation), func(t *testing.T) {
			t.Parallel()
			endTLS(t, target, isolation)
		})
	}
}

// endTLS makes an attempt whose guest writes until the deadline.
func endTLS(t *testing.T, target probe.Target, isolation plugin.Isolation) {
	var farewells atomic.Int32
	h, err := wasm.New(wasm.Config{
		CacheDir: testCache(scratch), Interpreter: interpreter,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			_ = conn.(*net.TCPConn).SetWriteBuffer(16 << 10)
			return &watched{conn, &farewells}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	m := plugin.Minimal("tlswall")
	m.Isolation, m.Stateful = isolation, isolation == plugin.Pooled
	p := loadAs(t, h, "tlswall", m)
	if got, err := overrun(t, p, probe.Request{Target: target}, time.Second); err != nil || got.Result != probe.Failure {
		t.Errorf("got %+v, %v", got, err)
	}
	if n := farewells.Load(); n != 0 {
		t.Errorf("%d farewells", n)
	}
}
