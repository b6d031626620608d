package builtin_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// listen accepts connections on loopback and closes them when the test ends.
func listen(t testing.TB, network, address string) net.Addr {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr()
}

// socketPath returns a short path for a new socket, whatever TMPDIR is.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(plugin.SocketTemp(), "prober-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func TestTCP(t *testing.T) {
	t.Run("#138 a listening port is a success", func(t *testing.T) {
		port := portOf(t, listen(t, "tcp", "127.0.0.1:0"))
		h := prepare(t, builtin.NewTCP(builtin.Config{}), fmt.Sprintf(`{"port":%d}`, port))
		got, err := attempt(t, h, probe.Request{PodIP: "127.0.0.1"}, time.Minute)
		want(t, got, err, probe.Success, "")
	})
	t.Run("#138 nothing is sent and the connection is closed", func(t *testing.T) {
		var network pipeNetwork
		l, err := network.Listen("tcp", "10.0.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		h := prepare(t, builtin.NewTCP(builtin.Config{DialContext: network.DialContext}), `{"port":80}`)
		seen := make(chan string, 1)
		go func() {
			var sent []byte
			c, err := l.Accept()
			if err == nil {
				_ = c.SetDeadline(time.Now().Add(10 * time.Second))
				sent, err = io.ReadAll(c)
			}
			seen <- fmt.Sprintf("%q, %v", sent, err)
		}()
		got, err := attempt(t, h, probe.Request{PodIP: "10.0.0.1"}, time.Minute)
		want(t, got, err, probe.Success, "")
		if s := <-seen; s != `"", <nil>` {
			t.Errorf("the target read %s", s)
		}
	})
	t.Run("#138 the same with SO_LINGER", func(t *testing.T) {
		port := portOf(t, listen(t, "tcp", "127.0.0.1:0"))
		lingering := make(chan int, 1)
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			return lingerer{c, lingering}, err
		}
		for compat, seconds := range map[probe.Compat]int{probe.CompatLinger: 1, probe.CompatKubeletV1_36: 1, 0: 0} {
			h := prepare(t, builtin.NewTCP(builtin.Config{Compat: compat, DialContext: dial}), fmt.Sprintf(`{"port":%d}`, port))
			got, err := attempt(t, h, probe.Request{PodIP: "127.0.0.1"}, time.Minute)
			want(t, got, err, probe.Success, "")
			set := 0
			select {
			case set = <-lingering:
			default:
			}
			if set != seconds {
				t.Errorf("switches %b: linger %d s, want %d", compat, set, seconds)
			}
		}
	})
}

func TestTCPOfOtherTargets(t *testing.T) {
	t.Run("a socket", func(t *testing.T) {
		path := socketPath(t)
		listen(t, "unix", path)
		got, err := attempt(t, builtin.NewTCP(builtin.Config{}), probe.Request{Target: probe.Target{Unix: path}}, time.Minute)
		want(t, got, err, probe.Success, "")
	})
	t.Run("host does not answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var network pipeNetwork
			network.BlackHole("10.0.0.1:80")
			h := prepare(t, builtin.NewTCP(builtin.Config{DialContext: network.DialContext}), `{"port":80}`)
			start := time.Now()
			got, err := attempt(t, h, probe.Request{PodIP: "10.0.0.1"}, time.Second)
			want(t, got, err, probe.Failure, "dial tcp 10.0.0.1:80: i/o timeout")
			wantReason(t, got, probe.ReasonConnectTimeout)
			if took := time.Since(start); took != time.Second {
				t.Errorf("took %v", took)
			}
		})
	})
	t.Run("name does not exist", func(t *testing.T) {
		dial := func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "nowhere", IsNotFound: true}}
		}
		h := prepare(t, builtin.NewTCP(builtin.Config{DialContext: dial}), `{"port":80,"host":"nowhere"}`)
		got, err := attempt(t, h, probe.Request{}, time.Minute)
		want(t, got, err, probe.Failure, "dial tcp: lookup nowhere: no such host")
		wantReason(t, got, probe.ReasonDNS)
	})
	t.Run("traced", func(t *testing.T) {
		port := portOf(t, listen(t, "tcp", "127.0.0.1:0"))
		var events []string
		req := probe.Request{PodIP: "127.0.0.1", Trace: func(e probe.TraceEvent) { events = append(events, e.Name+" "+e.Detail) }}
		h := prepare(t, builtin.NewTCP(builtin.Config{}), fmt.Sprintf(`{"port":%d}`, port))
		if _, err := attempt(t, h, req, time.Minute); err != nil {
			t.Error(err)
		}
		if want := fmt.Sprintf("connect 127.0.0.1:%d", port); len(events) != 1 || events[0] != want {
			t.Errorf("events %q, want %q", events, want)
		}
	})
}

// lingerer records the SO_LINGER that is set.
type lingerer struct {
	net.Conn
	seconds chan int
}

func (l lingerer) SetLinger(sec int) error {
	l.seconds <- sec
	return nil
}
