package wasm_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

func dialErr(call string, err error) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError(call, err)}
}

// troubled returns a host whose dials return the error of dial, or connect if it is nil.
func troubled(t *testing.T, compat probe.Compat, dial func(addr string) error) *wasm.Host {
	t.Helper()
	h, err := wasm.New(wasm.Config{
		CacheDir: testCache(scratch), Interpreter: interpreter, Compat: compat, DNSServers: []string{"10.0.0.2:53"},
		DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
			if err := dial(addr); err != nil {
				return nil, err
			}
			client, server := net.Pipe()
			t.Cleanup(func() { _ = server.Close() })
			return client, nil
		},
		LookupIP: func(_ context.Context, name string) ([]netip.Addr, error) {
			if name == "lost" {
				return nil, &net.DNSError{Err: "dial udp 10.0.0.2:53: socket: too many open files", Name: name}
			}
			return []netip.Addr{netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fd00::7")}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// TestHostTroubleIsError checks that a Failure or a timeout of the guest becomes an error if the host
// itself cannot make a connection.
func TestHostTroubleIsError(t *testing.T) {
	const request = `{"req":{"url":"http:///"}}`
	out := func(string) error { return dialErr("socket", syscall.EMFILE) }
	refused := func(string) error { return dialErr("connect", syscall.ECONNREFUSED) }
	offline := func(string) error { return dialErr("connect", syscall.ENETUNREACH) }
	for _, c := range []struct {
		name, guest, config, host string
		dial                      func(addr string) error
		want                      string       // text of the error; "" means none
		kubelet                   probe.Reason // reason of the Failure with CompatHostTrouble
		hangs                     bool         // the attempt reaches its deadline
	}{
		{"dial", "dialurl", `{"url":"tcp://"}`, "10.0.0.7", out, "socket: too many open files", probe.ReasonHostResources, false},
		{"dial of a name", "dialurl", `{"url":"tcp://"}`, "lost", out, "socket: too many open files", probe.ReasonHostResources, false},
		{"request", "http", request, "10.0.0.7", out, "socket: too many open files", probe.ReasonHostResources, false},
		{"look-up", "dns", `{"req":{"name":"db.test"}}`, "10.0.0.7", out, "socket: too many open files", probe.ReasonHostResources, false},
		{"without a network", "dialurl", `{"url":"tcp://"}`, "10.0.0.7", offline, "network is unreachable", probe.ReasonHostNetwork, false},
		{"request without a network", "http", request, "10.0.0.7", offline, "network is unreachable", probe.ReasonHostNetwork, false},
		{"refused, without a route over IPv6", "dialurl", `{"url":"tcp://"}`, "both", func(addr string) error {
			if strings.HasPrefix(addr, "[") {
				return offline(addr)
			}
			return refused(addr)
		}, "", probe.ReasonConnectRefused, false},
		{"a guest that loops then", "late", `{"then":1}`, "10.0.0.7", out, "socket: too many open files", probe.ReasonDeadline, true},
		{"a guest that sleeps then", "late", `{"then":2}`, "10.0.0.7", out, "socket: too many open files", probe.ReasonDeadline, true},
		{"refused", "dialurl", `{"url":"tcp://"}`, "10.0.0.7", refused, "", probe.ReasonConnectRefused, false},
		{"refused, without IPv6", "dialurl", `{"url":"tcp://"}`, "both", func(addr string) error {
			if strings.HasPrefix(addr, "[") {
				return dialErr("connect", syscall.EADDRNOTAVAIL)
			}
			return refused(addr)
		}, "", probe.ReasonConnectRefused, false},
	} {
		for name, compat := range map[string]probe.Compat{"by default": 0, "with the switch": probe.CompatHostTrouble} {
			t.Run(c.name+" "+name, func(t *testing.T) {
				m := lateManifest(plugin.Reset)
				m.Name = c.guest
				m.Requests[1].Allow = allow.Allow
				h := loadAs(t, troubled(t, compat, c.dial), c.guest, m, grants(t, "kv", "dns")...)
				target := probe.Target{Host: c.host, Port: 80}
				ask, timeout := attempt, 5*time.Second
				if c.hangs {
					ask, timeout = overrun, 300*time.Millisecond
				}
				got, err := ask(t, bind(t, h, c.config, target), probe.Request{Target: target}, timeout)
				if c.want != "" && compat == 0 {
					reason := probe.ReasonHostResources
					if c.kubelet.OfHost() {
						reason = c.kubelet
					}
					if probe.ReasonOf(err) != reason || !strings.Contains(err.Error(), c.want) || got.Result != probe.Unknown {
						t.Errorf("got %+v, error %v, want an error of the host with %q", got, err, c.want)
					}
					return
				}
				if err != nil || got.Result != probe.Failure || got.Reason != c.kubelet {
					t.Errorf("got %+v, error %v, want a failure, reason %q", got, err, c.kubelet)
				}
			})
		}
	}
	for name, second := range map[string]error{"connects": nil, "is refused": refused("")} {
		t.Run("a guest whose second dial "+name, func(t *testing.T) {
			dials := 0
			h := load(t, troubled(t, 0, func(string) error {
				if dials++; dials == 1 {
					return out("")
				}
				return second
			}), "dialtwice", plugin.Reset)
			got, err := attempt(t, h, probe.Request{Target: elsewhere}, 5*time.Second)
			if err != nil || got.Result != probe.Failure || dials != 2 {
				t.Errorf("got %+v, error %v after %d dials; want the guest's Failure", got, err, dials)
			}
		})
	}
	t.Run("a guest that reports an error", func(t *testing.T) {
		h := load(t, troubled(t, 0, out), "hang", plugin.Reset)
		if _, err := attempt(t, h, probe.Request{Target: elsewhere}, 5*time.Second); probe.ReasonOf(err) != probe.ReasonHostResources {
			t.Errorf("got %v, want an error of the host", err)
		}
	})
	t.Run("a success stays one", func(t *testing.T) {
		h := loadLate(t, troubled(t, 0, out), plugin.Reset)
		got, err := attempt(t, bind(t, h, `{"then":0}`, elsewhere), probe.Request{Target: elsewhere}, 5*time.Second)
		if err != nil || got.Result != probe.Success {
			t.Errorf("got %+v, %v, want success", got, err)
		}
	})
}
