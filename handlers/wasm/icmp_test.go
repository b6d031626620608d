package wasm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// pinger is a simulated network in which every address answers echo requests, except the silent ones.
type pinger struct {
	names map[string][]string

	mu     sync.Mutex
	asked  []wasm.EchoRequest
	lookup int // number of look-ups
}

func (n *pinger) host(t *testing.T) *wasm.Host {
	t.Helper()
	h, err := wasm.New(wasm.Config{
		CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: true, Echo: n.echo,
		LookupIP: func(_ context.Context, host string) (addrs []netip.Addr, err error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.lookup++
			for _, addr := range n.names[host] {
				addrs = append(addrs, netip.MustParseAddr(addr))
			}
			if addrs == nil {
				err = &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
			}
			return addrs, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func (n *pinger) echo(ctx context.Context, r wasm.EchoRequest) (wasm.EchoReply, error) {
	n.mu.Lock()
	n.asked = append(n.asked, r)
	n.mu.Unlock()
	switch r.Addr.String() {
	case "10.0.0.99":
		<-ctx.Done()
		return wasm.EchoReply{}, ctx.Err()
	case "10.0.0.98":
		return wasm.EchoReply{}, fmt.Errorf("10.0.0.1 says: host unreachable: %w", syscall.EHOSTUNREACH)
	}
	return wasm.EchoReply{Local: netip.MustParseAddr("10.0.0.1"), Payload: r.Payload, HopLimit: 63, Setup: time.Millisecond, RTT: 2 * time.Millisecond}, nil
}

// seen returns the addresses to which requests were sent since the last call.
func (n *pinger) seen() (addrs []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.asked {
		addrs = append(addrs, r.Addr.String())
	}
	n.asked = nil
	return addrs
}

// pings makes an attempt of the guest icmp. See icmp.wat for the fields besides req.
func pings(t *testing.T, p *wasm.Handler, config map[string]any, req probe.Request) probe.Outcome {
	t.Helper()
	doc, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	got, err := attempt(t, bind(t, p, string(doc), req.Target), req, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

type obj = map[string]any

func TestGuestSendsEchoRequests(t *testing.T) {
	n := &pinger{names: map[string][]string{"db.internal": {"fd00::7", "10.0.0.7"}}}
	p := load(t, n.host(t), "icmp", plugin.Reset)
	target := probe.Target{Host: "db.internal", Port: 5432}
	for _, c := range []struct {
		req  obj
		want wasm.EchoRequest
	}{
		{obj{}, wasm.EchoRequest{Addr: netip.MustParseAddr("fd00::7"), Payload: 56}},
		{obj{"host": "DB.internal."}, wasm.EchoRequest{Addr: netip.MustParseAddr("fd00::7"), Payload: 56}},
		{obj{"host": "10.0.0.7"}, wasm.EchoRequest{Addr: netip.MustParseAddr("10.0.0.7"), Payload: 56}},
		{obj{"ipFamily": "4"}, wasm.EchoRequest{Addr: netip.MustParseAddr("10.0.0.7"), Payload: 56}},
		{obj{"ipFamily": "6,4"}, wasm.EchoRequest{Addr: netip.MustParseAddr("fd00::7"), Payload: 56}},
		{
			obj{"sourceAddress": "10.0.0.1", "payload": 65_507, "hopLimit": 1, "dontFragment": true},
			wasm.EchoRequest{Addr: netip.MustParseAddr("10.0.0.7"), Source: netip.MustParseAddr("10.0.0.1"), Payload: 65_507, HopLimit: 1, DontFragment: true},
		},
	} {
		var events []probe.TraceEvent
		req := probe.Request{Target: target, Trace: func(e probe.TraceEvent) { events = append(events, e) }}
		got := pings(t, p, obj{"req": c.req}, req)
		var reply struct {
			Local, Remote     string
			Payload, HopLimit int
			Timings           struct{ DNS, Setup, RTT float64 }
		}
		if err := json.Unmarshal([]byte(got.Output), &reply); got.Result != probe.Success || err != nil {
			t.Fatalf("%v: got %+v", c.req, got)
		}
		if len(n.asked) != 1 || n.asked[0] != c.want {
			t.Errorf("%v: asked %+v, want %+v", c.req, n.asked, c.want)
		}
		to := c.want.Addr.String()
		if reply.Local != "10.0.0.1" || reply.Remote != to || reply.Payload != c.want.Payload || reply.HopLimit != 63 ||
			reply.Timings.DNS <= 0 || reply.Timings.Setup != 0.001 || reply.Timings.RTT != 0.002 {
			t.Errorf("%v: got %+v", c.req, reply)
		}
		want := fmt.Sprintf("%s: %d bytes, hop limit 63", to, c.want.Payload)
		if len(events) != 2 || events[0].Type != probe.TraceCall || events[0].Name != "echo" || events[0].Detail != want {
			t.Errorf("%v: traced %+v, want %s", c.req, events, want)
		}
		n.seen()
	}
}

func TestConsecutiveEchoRequestsLookUpOnce(t *testing.T) {
	n := &pinger{names: map[string][]string{"db.internal": {"10.0.0.7"}}}
	p := load(t, n.host(t), "icmp", plugin.Reset)
	req := probe.Request{Target: probe.Target{Host: "db.internal"}}
	for want := 1; want < 3; want++ { // each attempt looks the name up again
		got := pings(t, p, obj{"req": obj{}, "more": "123"}, req)
		if asked := n.seen(); got.Result != probe.Success || len(asked) != 4 || n.lookup != want {
			t.Errorf("got %+v, asked %v, after %d look-ups", got, asked, n.lookup)
		}
	}
}

func TestEchoErrors(t *testing.T) {
	n := &pinger{names: map[string][]string{"db.internal": {"10.0.0.7"}}}
	p := load(t, n.host(t), "icmp", plugin.Reset)
	for _, c := range []struct {
		host   string
		config obj
		want   string
		reason probe.Reason
	}{
		{"10.0.0.98", obj{"req": obj{}}, "icmp 10.0.0.98: 10.0.0.1 says: host unreachable: no route to host", ""},
		{"10.0.0.99", obj{"req": obj{}, "short": "1"}, "icmp 10.0.0.99: context deadline exceeded", probe.ReasonConnectTimeout},
		{"gone.internal", obj{"req": obj{}}, "icmp gone.internal: lookup gone.internal: no such host", probe.ReasonDNS},
		{"db.internal", obj{"req": obj{"ipFamily": "6"}}, "icmp db.internal: lookup db.internal: no address of the IP family that is asked for", probe.ReasonDNS},
		{"10.0.0.7", obj{"req": obj{"ipFamily": "5"}}, `icmp: ipFamily "5": must be "4", "6", "4,6" or "6,4"`, ""},
		{"10.0.0.7", obj{"req": obj{"sourceAddress": "me"}}, `icmp: sourceAddress "me": must be an IP address`, ""},
		{"10.0.0.7", obj{"req": obj{"payload": 65_508}}, "icmp: request: payload: must be 1 to 65507", ""},
		{"10.0.0.7", obj{"req": obj{"payload": -1}}, "icmp: request: payload: must be 1 to 65507", ""},
		{"10.0.0.7", obj{"req": obj{"hopLimit": 256}}, "icmp: request: hopLimit: must be 1 to 255", ""},
		{"10.0.0.7", obj{"req": "none"}, "icmp: request: byte 0 of JSON: expected an object, got 'n'", ""},
		{"10.0.0.7", obj{"req": obj{"host": strings.Repeat("a", 2048)}}, "icmp: a request of 2059 bytes", ""},
		{"10.0.0.7", obj{"req": obj{}, "more": "12345678"}, "more than 8 dials a second", ""},
		{"10.0.0.7", obj{"req": obj{"payload": 65_507}, "more": "1234"}, "more than 262144 bytes written in one run", ""},
		{"", obj{"req": obj{}}, "icmp: the probe's target has no host", ""},
	} {
		got := pings(t, p, c.config, probe.Request{Target: probe.Target{Host: c.host}})
		if got.Result != probe.Failure || got.Output != c.want || got.Reason != c.reason {
			t.Errorf("%s %v: got %+v, want %s, reason %q", c.host, c.config, got, c.want, c.reason)
		}
	}
	wantHits(t, p, map[plugin.LimitName]uint64{"dials": 1, "netWrite": 1})
}

func TestEchoWithoutSocketIsNoFailure(t *testing.T) {
	h, err := wasm.New(wasm.Config{
		CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: true,
		Echo: func(context.Context, wasm.EchoRequest) (wasm.EchoReply, error) {
			return wasm.EchoReply{}, &wasm.EchoNotPermittedError{Datagram: syscall.EACCES, Raw: syscall.EPERM}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	target := probe.Target{Host: "10.0.0.7"}
	b := bind(t, load(t, h, "icmp", plugin.Reset), `{"req":{}}`, target)
	_, err = attempt(t, b, probe.Request{Target: target}, 5*time.Second)
	if probe.ReasonOf(err) != probe.ReasonHostResources || !strings.Contains(err.Error(), "net.ipv4.ping_group_range, or CAP_NET_RAW") {
		t.Errorf("got %v", err)
	}
}

func TestEchoDeadline(t *testing.T) {
	n := &pinger{}
	target := probe.Target{Host: "10.0.0.99"}
	hang(t, bind(t, load(t, n.host(t), "icmp", plugin.Reset), `{"req":{}}`, target), target, `^echo 10.0.0.99: waiting for [0-9.]+m?s; no echo reply from 10.0.0.99$`)
}

// TestEchoReleasesItsSlot lets more guests wait concurrently than may compute.
func TestEchoReleasesItsSlot(t *testing.T) {
	guests := 4 * runtime.GOMAXPROCS(0)
	var all sync.WaitGroup // done when each guest waits
	all.Add(guests)
	h, err := wasm.New(wasm.Config{
		CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: true,
		Echo: func(_ context.Context, r wasm.EchoRequest) (wasm.EchoReply, error) {
			all.Done()
			all.Wait()
			return wasm.EchoReply{Payload: r.Payload}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	p := load(t, h, "icmp", plugin.Reset)
	var done sync.WaitGroup
	for range guests {
		done.Go(func() {
			if got := pings(t, p, obj{"req": obj{}}, probe.Request{Target: probe.Target{Host: "10.0.0.7"}}); got.Result != probe.Success {
				t.Errorf("got %+v", got)
			}
		})
	}
	done.Wait()
}

// TestEchoAttacks makes a guest send echo requests to denied hosts, and checks which are sent.
func TestEchoAttacks(t *testing.T) {
	n := &pinger{names: map[string][]string{
		"db.internal": {"10.0.0.9"}, "rebound.internal": {"127.0.0.1"}, "stolen.internal": {"169.254.169.254"},
		"mixed.internal": {"127.0.0.1", "10.6.6.6", "10.0.0.2"}, "here.internal": {"10.0.0.7"},
	}}
	h := n.host(t)
	ask := plugin.Request{Capability: "icmp", Allow: []string{"icmp://*", "icmp://0.0.0.0/0", "icmp://[::/0]"}}
	for _, c := range []struct {
		test, target, host string
		grants             []string
		want               []string
	}{
		{"the target", "10.0.0.7", "", nil, []string{"10.0.0.7"}},
		{"the target by name", "here.internal", "", nil, []string{"10.0.0.7"}},
		{"the target's address", "here.internal", "10.0.0.7", nil, []string{"10.0.0.7"}},
		{"the target, denied", "10.0.0.7", "", []string{"!10.0.0.0/29"}, nil},
		{"the target, denied for icmp", "10.0.0.7", "", []string{"!icmp://10.0.0.7"}, nil},
		{"the target, denied by name", "here.internal", "", []string{"!icmp://here.internal"}, nil},
		{"the target, another name denied", "10.0.0.7", "", []string{"!here.internal"}, nil},
		{"the target, denied for tcp", "10.0.0.7", "", []string{"!tcp://10.0.0.7:80"}, []string{"10.0.0.7"}},
		{"the target, denied at a port", "10.0.0.7", "", []string{"!10.0.0.7:80"}, []string{"10.0.0.7"}},
		{"a loopback target", "127.0.0.1", "", nil, []string{"127.0.0.1"}},
		{"localhost", "localhost", "", nil, nil}, // has no address here
		{"a target with the address of metadata", "stolen.internal", "", nil, nil},
		{"a link-local target", "169.254.1.1", "", nil, nil},
		{"a link-local target that is granted", "169.254.1.1", "", []string{"icmp://169.254.1.1"}, []string{"169.254.1.1"}},
		{"the broadcast address", "255.255.255.255", "", nil, nil},
		{"a group", "224.0.0.1", "", nil, nil},
		{"any address", "0.0.0.0", "", nil, nil},
		{"another address", "10.0.0.7", "10.0.0.9", nil, nil},
		{"another address, granted", "10.0.0.7", "10.0.0.9", []string{"icmp://10.0.0.0/8"}, []string{"10.0.0.9"}},
		{"another address, granted for tcp", "10.0.0.7", "10.0.0.9", []string{"tcp://*:*", "udp://*:*", "tcp://0.0.0.0/0:*"}, nil},
		{"another name", "10.0.0.7", "db.internal", nil, nil},
		{"another name, granted", "10.0.0.7", "db.internal", []string{"icmp://*.internal"}, []string{"10.0.0.9"}},
		{"a granted name, its address", "10.0.0.7", "10.0.0.9", []string{"icmp://*.internal"}, nil},
		{"a granted name, its address denied", "10.0.0.7", "db.internal", []string{"icmp://*.internal", "!10.0.0.9"}, nil},
		{"a granted name with loopback", "10.0.0.7", "rebound.internal", []string{"icmp://*"}, nil},
		{"a granted name with several", "10.0.0.7", "mixed.internal", []string{"icmp://*.internal", "!10.6.0.0/16"}, []string{"10.0.0.2"}},
		{"loopback, granted by a wildcard", "10.0.0.7", "127.0.0.1", []string{"icmp://*"}, nil},
		{"loopback, granted", "10.0.0.7", "127.0.0.1", []string{"icmp://127.0.0.1"}, []string{"127.0.0.1"}},
		{"a number for an address", "10.0.0.7", "2130706433", []string{"icmp://*"}, nil},
		{"a mapped address", "10.0.0.7", "::ffff:127.0.0.1", []string{"icmp://*"}, nil},
		{"an address with a port", "10.0.0.7", "10.0.0.7:80", []string{"icmp://*"}, nil},
	} {
		t.Run(c.test, func(t *testing.T) {
			grants, err := plugin.ParseGrants(c.grants)
			if err != nil {
				t.Fatal(err)
			}
			m := plugin.Minimal("icmp")
			m.Requests = []plugin.Request{ask}
			p, err := h.Load(t.Context(), plugin.Found{Module: guestFile(t, "icmp"), Manifest: m, Grants: grants})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			var denied []string
			got := pings(t, p, obj{"req": obj{"host": c.host}}, probe.Request{Target: probe.Target{Host: c.target, Port: 80}, Trace: func(e probe.TraceEvent) {
				if e.Type == probe.TraceDenied {
					denied = append(denied, e.Detail)
				}
			}})
			if diff := cmp.Diff(c.want, n.seen()); diff != "" || (got.Result == probe.Success) != (c.want != nil) {
				t.Errorf("got %+v\n%s", got, diff)
			}
			if c.want == nil && c.test != "localhost" && (got.Reason != probe.ReasonDenied || len(denied) != 1 || p.Stats().Denied != 1) {
				t.Errorf("got %+v, denied %v, counted %d", got, denied, p.Stats().Denied)
			}
		})
	}
}
