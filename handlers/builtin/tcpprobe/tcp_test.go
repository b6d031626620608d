package tcpprobe_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/handlers/builtin/tcpprobe"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTCP(t *testing.T) {
	t.Run("#138 a listening port is a success", func(t *testing.T) {
		port := rig.PortOf(t, rig.Listen(t, "tcp", "127.0.0.1:0"))
		h := rig.Prepare(t, tcpprobe.New(tcpprobe.Config{}), fmt.Sprintf(`{"port":%d}`, port))
		got, err := rig.Attempt(t, h, probe.Request{PodIP: "127.0.0.1"}, time.Minute)
		rig.Want(t, got, err, probe.Success, "")
	})
	t.Run("#138 nothing is sent and the connection is closed", func(t *testing.T) {
		var network rig.Network
		l, err := network.Listen("tcp", "10.0.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		h := rig.Prepare(t, tcpprobe.New(tcpprobe.Config{DialContext: network.DialContext}), `{"port":80}`)
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
		got, err := rig.Attempt(t, h, probe.Request{PodIP: "10.0.0.1"}, time.Minute)
		rig.Want(t, got, err, probe.Success, "")
		if s := <-seen; s != `"", <nil>` {
			t.Errorf("the target read %s", s)
		}
	})
	t.Run("#138 the same with SO_LINGER", func(t *testing.T) {
		port := rig.PortOf(t, rig.Listen(t, "tcp", "127.0.0.1:0"))
		lingering := make(chan int, 1)
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			return lingerer{c, lingering}, err
		}
		for compat, seconds := range map[probe.Compat]int{probe.CompatLinger: 1, probe.CompatKubeletV1_36: 1, 0: 0} {
			h := rig.Prepare(t, tcpprobe.New(tcpprobe.Config{Compat: compat, DialContext: dial}), fmt.Sprintf(`{"port":%d}`, port))
			got, err := rig.Attempt(t, h, probe.Request{PodIP: "127.0.0.1"}, time.Minute)
			rig.Want(t, got, err, probe.Success, "")
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
		path := rig.SocketPath(t)
		rig.Listen(t, "unix", path)
		got, err := rig.Attempt(t, tcpprobe.New(tcpprobe.Config{}), probe.Request{Target: probe.Target{Unix: path}}, time.Minute)
		rig.Want(t, got, err, probe.Success, "")
	})
	t.Run("host does not answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var network rig.Network
			network.BlackHole("10.0.0.1:80")
			h := rig.Prepare(t, tcpprobe.New(tcpprobe.Config{DialContext: network.DialContext}), `{"port":80}`)
			start := time.Now()
			got, err := rig.Attempt(t, h, probe.Request{PodIP: "10.0.0.1"}, time.Second)
			rig.Want(t, got, err, probe.Failure, "dial tcp 10.0.0.1:80: i/o timeout")
			rig.WantReason(t, got, probe.ReasonConnectTimeout)
			if took := time.Since(start); took != time.Second {
				t.Errorf("took %v", took)
			}
		})
	})
	t.Run("name does not exist", func(t *testing.T) {
		dial := func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "nowhere", IsNotFound: true}}
		}
		h := rig.Prepare(t, tcpprobe.New(tcpprobe.Config{DialContext: dial}), `{"port":80,"host":"nowhere"}`)
		got, err := rig.Attempt(t, h, probe.Request{}, time.Minute)
		rig.Want(t, got, err, probe.Failure, "dial tcp: lookup nowhere: no such host")
		rig.WantReason(t, got, probe.ReasonDNS)
	})
	t.Run("traced", func(t *testing.T) {
		port := rig.PortOf(t, rig.Listen(t, "tcp", "127.0.0.1:0"))
		var events []string
		req := probe.Request{PodIP: "127.0.0.1", Debug: true, Trace: func(e probe.TraceEvent) { events = append(events, e.Name+" "+e.Detail) }}
		h := rig.Prepare(t, tcpprobe.New(tcpprobe.Config{}), fmt.Sprintf(`{"port":%d}`, port))
		if _, err := rig.Attempt(t, h, req, time.Minute); err != nil {
			t.Error(err)
		}
		if want := fmt.Sprintf("connect 127.0.0.1:%d", port); len(events) != 1 || events[0] != want {
			t.Errorf("events %q, want %q", events, want)
		}
	})
}

// lingerer records the value of SO_LINGER.
type lingerer struct {
	net.Conn
	seconds chan int
}

func (l lingerer) SetLinger(sec int) error {
	l.seconds <- sec
	return nil
}

func TestTCPSuite(t *testing.T) {
	probetest.HandlerSuite(t, func(t *testing.T) probetest.HandlerUnderTest {
		port := rig.PortOf(t, rig.Listen(t, "tcp", "127.0.0.1:0"))
		var network rig.Network
		network.BlackHole("127.0.0.1:1")
		return probetest.HandlerUnderTest{
			Good:    rig.Prepare(t, tcpprobe.New(tcpprobe.Config{}), fmt.Sprintf(`{"port":%d}`, port)),
			Hanging: rig.Prepare(t, tcpprobe.New(tcpprobe.Config{DialContext: network.DialContext}), `{"port":1}`),
			Erring:  rig.Prepare(t, tcpprobe.New(tcpprobe.Config{}), `{"port":"none"}`),
			Request: probe.Request{PodIP: "127.0.0.1"},
		}
	})
}

func TestBindTCP(t *testing.T) {
	port := rig.PortOf(t, rig.Listen(t, "tcp", "127.0.0.1:0"))
	for _, c := range []struct {
		action tcpprobe.Action
		req    probe.Request
	}{
		{tcpprobe.Action{Host: "127.0.0.1", Port: port}, probe.Request{}},
		{tcpprobe.Action{PortName: "db"}, probe.Request{PodIP: "127.0.0.1", Container: &probe.Container{Ports: []probe.Port{{Name: "db", Number: port}}}}},
		{tcpprobe.Action{}, probe.Request{Target: probe.Target{Host: "127.0.0.1", Port: port}}},
	} {
		h, err := tcpprobe.New(tcpprobe.Config{}).Bind(c.action)
		if err != nil {
			t.Fatal(err)
		}
		got, err := rig.Attempt(t, h, c.req, time.Minute)
		rig.Want(t, got, err, probe.Success, "")
	}
}
