package network_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"github.com/daeace23/prober/handlers/builtin/internal/network"
	"github.com/daeace23/prober/probe"
)

// listen returns a listener and its endpoint.
func listen(t *testing.T, address string) (net.Listener, network.Endpoint) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, endpoint(l.Addr().String())
}

// accept returns the next connection of l.
func accept(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close() })
	return peer
}

func connect(t *testing.T, ctx context.Context, at network.Endpoint) *network.Conn {
	t.Helper()
	conn, err := network.NewConnector(nil, 0).Connect(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*network.Conn)
}

func TestConnIsNetConn(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, nil, err
		}
		if c1, err = network.NewConnector(nil, 0).Connect(context.Background(), endpoint(l.Addr().String())); err != nil {
			return nil, nil, nil, err
		}
		c2, err = l.Accept()
		return c1, c2, func() { c1.Close(); c2.Close(); l.Close() }, err
	})
}

// fullQueue returns the endpoint of a listener with a full queue, which accepts no connection.
func fullQueue(t *testing.T) network.Endpoint {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	at := network.Endpoint{Host: "127.0.0.1", Port: name.(*syscall.SockaddrInet4).Port}
	connect(t, t.Context(), at)
	return at
}

// refusing returns the endpoint of a port without a listener.
func refusing(t *testing.T, address string) network.Endpoint {
	t.Helper()
	l, at := listen(t, address)
	l.Close()
	return at
}

func TestConnectErrorsMatchDialer(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		at  network.Endpoint
		ctx func() (context.Context, context.CancelFunc)
	}{
		"refused":         {at: refusing(t, "127.0.0.1:0")},
		"refused by IPv6": {at: refusing(t, "[::1]:0")},
		"IPv4 in IPv6":    {at: network.Endpoint{Host: "::ffff:127.0.0.1", Port: refusing(t, "127.0.0.1:0").Port}},
		"no such network": {at: network.Endpoint{Host: "255.255.255.255", Port: 80}},
		"port 0":          {at: network.Endpoint{Host: "127.0.0.1"}},
		"port -1":         {at: network.Endpoint{Host: "127.0.0.1", Port: -1}},
		"port 65536":      {at: network.Endpoint{Host: "127.0.0.1", Port: 65536}},
		"ended":           {at: refusing(t, "127.0.0.1:0"), ctx: func() (context.Context, context.CancelFunc) { return ended, cancel }},
		"deadline": {at: fullQueue(t), ctx: func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 50*time.Millisecond)
		}},
		"deadline passed":  {at: fullQueue(t), ctx: func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), -time.Second) }},
		"not an address":   {at: network.Endpoint{Host: "300.0.0.1", Port: 80}},
		"unknown zone":     {at: network.Endpoint{Host: "fe80::1%nowhere", Port: 80}},
		"link without one": {at: network.Endpoint{Host: "fe80::1", Port: 80}},
	} {
		t.Run(name, func(t *testing.T) {
			ask := func(dial func(context.Context) error) error {
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if c.ctx != nil {
					ctx, cancel = c.ctx()
				}
				defer cancel()
				return dial(ctx)
			}
			want := ask(func(ctx context.Context) error {
				_, err := new(net.Dialer).DialContext(ctx, "tcp", c.at.Address())
				return err
			})
			got := ask(func(ctx context.Context) error {
				_, err := network.NewConnector(nil, probe.CompatHostTrouble).Connect(ctx, c.at)
				return err
			})
			if want == nil || got == nil || got.Error() != want.Error() {
				t.Fatalf("got %v, want %v", got, want)
			}
			// Whether the dialer's timeout matches context.DeadlineExceeded depends on which of its timers
			// fires first.
			for _, target := range []error{syscall.ECONNREFUSED, context.Canceled} {
				if errors.Is(got, target) != errors.Is(want, target) {
					t.Errorf("it is %v: %t, want %t", target, errors.Is(got, target), errors.Is(want, target))
				}
			}
			op, wantOp := got.(*net.OpError), want.(*net.OpError)
			if op.Timeout() != wantOp.Timeout() || op.Temporary() != wantOp.Temporary() {
				t.Errorf("timeout %t, temporary %t; want %t, %t", op.Timeout(), op.Temporary(), wantOp.Timeout(), wantOp.Temporary())
			}
		})
	}
}

func TestCancellationEndsConnect(t *testing.T) {
	at := fullQueue(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err := network.NewConnector(nil, 0).Connect(ctx, at)
	if !errors.Is(err, context.Canceled) || err.Error() != "dial tcp "+at.Address()+": operation was canceled" {
		t.Errorf("got %v", err)
	}
}

func TestEndOfContextEndsRead(t *testing.T) {
	l, at := listen(t, "127.0.0.1:0")
	ctx, cancel := context.WithCancel(t.Context())
	conn := connect(t, ctx, at)
	peer := accept(t, l)
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err := conn.Read(make([]byte, 1))
	if want := "read tcp " + peer.RemoteAddr().String() + "->" + peer.LocalAddr().String() + ": i/o timeout"; !errors.Is(err, os.ErrDeadlineExceeded) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	network.Until(t.Context(), conn)
	if conn.SetDeadline(time.Time{}) != nil {
		t.Error("no deadline can be set")
	}
	go func() { _, _ = peer.Write([]byte("x")) }()
	if n, err := conn.Read(make([]byte, 2)); n != 1 || err != nil {
		t.Errorf("with another context: got %d bytes, %v", n, err)
	}
}

func TestEndOfContextEndsReadsOfEndlessPeer(t *testing.T) {
	l, at := listen(t, "127.0.0.1:0")
	ctx, cancel := context.WithCancel(t.Context())
	conn := connect(t, ctx, at)
	peer := accept(t, l)
	if _, err := peer.Write(make([]byte, 10_000)); err != nil {
		t.Fatal(err)
	}
	cancel()
	var err error
	for i := 0; i < 10_000 && err == nil; i++ {
		_, err = conn.Read(make([]byte, 1))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestReleasedConnOutlivesContext(t *testing.T) {
	l, at := listen(t, "127.0.0.1:0")
	ctx, cancel := context.WithCancel(t.Context())
	conn := connect(t, ctx, at)
	stop := network.Until(ctx, conn)
	peer := accept(t, l)
	if _, err := conn.Write([]byte("x")); err != nil { // registers the connection with the poller
		t.Fatal(err)
	}
	if !stop() {
		t.Error("stop says that the context has ended")
	}
	cancel()
	_ = peer.(*net.TCPConn).CloseWrite()
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("got %d bytes, %v", n, err)
	}
}

func TestReadErrorsMatchTCPConn(t *testing.T) {
	for name, dial := range map[string]func(network.Endpoint) (net.Conn, error){
		"Conn": func(at network.Endpoint) (net.Conn, error) {
			return network.NewConnector(nil, 0).Connect(t.Context(), at)
		},
		"TCPConn": func(at network.Endpoint) (net.Conn, error) { return net.Dial("tcp", at.Address()) },
	} {
		t.Run(name, func(t *testing.T) {
			l, at := listen(t, "127.0.0.1:0")
			conn, err := dial(at)
			if err != nil {
				t.Fatal(err)
			}
			peer, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			pair := peer.RemoteAddr().String() + "->" + peer.LocalAddr().String()
			_ = peer.(*net.TCPConn).SetLinger(0)
			_ = peer.Close()
			_, err = conn.Read(make([]byte, 1))
			if want := "read tcp " + pair + ": read: connection reset by peer"; !errors.Is(err, syscall.ECONNRESET) || err.Error() != want {
				t.Errorf("read: got %v, want %s", err, want)
			}
			_, err = conn.Write(make([]byte, 1))
			if want := "write tcp " + pair + ": write: broken pipe"; !errors.Is(err, syscall.EPIPE) || err.Error() != want {
				t.Errorf("write: got %v, want %s", err, want)
			}
			if err := conn.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			if _, err = conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) || !strings.HasSuffix(err.Error(), "use of closed network connection") {
				t.Errorf("after close: got %v", err)
			}
		})
	}
}

func TestNoConnectionToItself(t *testing.T) {
	// Use a port that the kernel chooses for the local end of a connection. For listeners it chooses from
	// other ports.
	l, to := listen(t, "127.0.0.1:0")
	conn := connect(t, t.Context(), to)
	at := endpoint(conn.LocalAddr().String())
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	peer.Close()
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Fatal(err)
	}
	conn.Close()
	for range 60_000 {
		conn, err := network.NewConnector(nil, 0).Connect(t.Context(), at)
		if err == nil {
			t.Fatalf("%v is connected to %v", conn.LocalAddr(), conn.RemoteAddr())
		}
	}
}

func TestConnectionsLeaveNothing(t *testing.T) {
	descriptors := func() int {
		runtime.GC()
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	l, at := listen(t, "127.0.0.1:0")
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	refused, full := refusing(t, "127.0.0.1:0"), fullQueue(t)
	before, goroutines := descriptors(), runtime.NumGoroutine()
	for i := range 2000 {
		to, timeout := at, time.Second
		switch i % 100 {
		case 0:
			to, timeout = full, time.Millisecond
		case 1:
			to = refused
		}
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		conn, err := network.NewConnector(nil, 0).Connect(ctx, to)
		if err == nil {
			_, _ = conn.Read(make([]byte, 1))
			conn.Close()
		}
		cancel()
	}
	if after := descriptors(); after > before+1 { // perhaps the poller's
		t.Errorf("%d descriptors, %d before", after, before)
	}
	if after := runtime.NumGoroutine(); after > goroutines+1 { // perhaps one that sets a deadline
		t.Errorf("%d goroutines, %d before", after, goroutines)
	}
}
