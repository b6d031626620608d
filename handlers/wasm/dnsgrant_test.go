package wasm_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// TestDNSAttacks makes a guest look up denied names and query denied servers, and checks which queries
// are sent.
func TestDNSAttacks(t *testing.T) {
	w := &wire{servers: []string{"127.0.0.53:53"}, names: map[string][]string{
		"ns.internal":      {"10.0.0.2"},
		"rebound.internal": {"127.0.0.1"},
		"stolen.internal":  {"169.254.169.254", "fd00:ec2::254"},
		"mixed.internal":   {"127.0.0.1", "10.6.6.6", "10.0.0.2"},
	}}
	h := w.host(t)
	ask := plugin.Request{Capability: "dns", Allow: []string{"dns", "target", "udp://*:*", "udp://0.0.0.0/0:*", "udp://[::/0]:*"}}
	target := probe.Target{Host: "10.0.0.7", Port: 5353}
	system := []string{"udp 127.0.0.53:53"}
	const evil = "secret.evil.example"
	for _, c := range []struct {
		test, name, server string
		grants             []string
		want               []string // dialled
	}{
		{"any name", evil, "", []string{"dns"}, system},
		{"a name that is granted", "db.internal", "", []string{"dns://*.internal"}, system},
		{"a name that is granted, in another spelling", "DB.Internal.", "", []string{"dns://db.internal"}, system},
		{"a name that is not granted", evil, "", []string{"dns://*.internal"}, nil},
		{"a name with the granted one at its front", "db.internal.evil.example", "", []string{"dns://db.internal", "dns://*.internal"}, nil},
		{"a name with the granted one as a part of its end", "evilinternal", "", []string{"dns://*.internal"}, nil},
		{"the name above those that are granted", "internal", "", []string{"dns://*.internal"}, nil},
		{"a name that is denied", evil, "", []string{"dns", "!dns://*.evil.example"}, nil},
		{"a name that is denied, in another spelling", "SECRET.Evil.Example.", "", []string{"dns", "!dns://*.evil.example"}, nil},
		{"the root, where names are granted", ".", "", []string{"dns://*.internal"}, nil},
		{"a name of which only connections are granted", evil, "", []string{"dns://*.internal", "tcp://*.evil.example:80"}, nil},

		{"the target as a server", "db.internal", "target", []string{"dns"}, []string{"udp 10.0.0.7:5353"}},
		{"the target as a server, by its address", "db.internal", "10.0.0.7:5353", []string{"dns"}, []string{"udp 10.0.0.7:5353"}},
		{"the target as a server, of a name that is not granted", evil, "target", []string{"dns://*.internal"}, nil},
		{"the target as a server, denied", "db.internal", "target", []string{"dns", "!10.0.0.0/29"}, nil},
		{"the target as a server, at another port", "db.internal", "10.0.0.7", []string{"dns"}, nil},
		{"another server", "db.internal", "10.0.0.2:53", []string{"dns"}, nil},
		{"a server that is granted", "db.internal", "10.0.0.2:53", []string{"dns", "udp://10.0.0.2:53"}, []string{"udp 10.0.0.2:53"}},
		{"a server that is granted, without its port", "db.internal", "10.0.0.2", []string{"dns", "udp://10.0.0.2:53"}, []string{"udp 10.0.0.2:53"}},
		{"a server of IPv6, without its port", "db.internal", "fd00::2", []string{"dns", "udp://[fd00::2]:53"}, []string{"udp [fd00::2]:53"}},
		{"a server that is granted, and a name that is not", evil, "10.0.0.2:53", []string{"dns://*.internal", "udp://10.0.0.2:53"}, nil},
		{"a server that is granted at another port", "db.internal", "10.0.0.2:54", []string{"dns", "udp://10.0.0.2:53"}, nil},
		{"a server that is granted over tcp", "db.internal", "10.0.0.2:53", []string{"dns", "tcp://10.0.0.2:53"}, nil},
		{"a server that is denied", "db.internal", "10.0.0.2:53", []string{"dns", "udp://*:53", "udp://10.0.0.0/8:53", "!udp://10.0.0.2:53"}, nil},
		{"a server that is denied, mapped", "db.internal", "[::ffff:10.0.0.2]:53", []string{"dns", "udp://[::/0]:53", "udp://10.0.0.0/8:53", "!10.0.0.2"}, nil},
		{"a server that is denied, by NAT64", "db.internal", "[64:ff9b::a00:2]:53", []string{"dns", "udp://[::/0]:53", "!10.0.0.2"}, nil},
		{"a server on loopback", "db.internal", "127.0.0.1:53", []string{"dns", "udp://*:*", "udp://0.0.0.0/0:*"}, nil},
		{"a server on loopback, mapped", "db.internal", "[::ffff:127.0.0.1]:53", []string{"dns", "udp://*:*", "udp://[::/0]:*"}, nil},
		{"the system's server, as if it were another", "db.internal", "127.0.0.53:53", []string{"dns", "udp://*:*"}, nil},
		{"the metadata", "db.internal", "169.254.169.254:53", []string{"dns", "udp://*:*", "udp://169.254.0.0/16:*"}, nil},
		{"the metadata, named", "db.internal", "169.254.169.254:53", []string{"dns", "udp://169.254.169.254:53"}, []string{"udp 169.254.169.254:53"}},
		{"a decimal server", "db.internal", "2130706433:53", []string{"dns", "udp://*:*"}, nil},
		{"an octal server", "db.internal", "0177.0.0.1:53", []string{"dns", "udp://*:*"}, nil},
		{"a server by its name", "db.internal", "ns.internal", []string{"dns", "udp://*.internal:53"}, []string{"udp 10.0.0.2:53"}},
		{"a server by its name, which leads to loopback", "db.internal", "rebound.internal:53", []string{"dns", "udp://*.internal:53"}, nil},
		{"a server by its name, which leads to the metadata", "db.internal", "stolen.internal:53", []string{"dns", "udp://*.internal:53"}, nil},
		{"a server by its name, which leads everywhere", "db.internal", "mixed.internal", []string{"dns", "udp://*.internal:53", "!10.6.0.0/16"}, []string{"udp 10.0.0.2:53"}},
	} {
		t.Run(c.test, func(t *testing.T) {
			w.dialed, w.lookedUp = nil, nil
			p := loadAs(t, h, "dns", asking("dns", ask), grants(t, c.grants...)...)
			b := bind(t, p, fmt.Sprintf(`{"req":{"name":%q,"server":%q}}`, c.name, c.server), target)
			got, err := attempt(t, b, probe.Request{Target: target, PodIP: target.Host}, 5*time.Second)
			wantReason, wantDenied := probe.ReasonDNS, uint64(0)
			if c.want == nil {
				wantReason, wantDenied = probe.ReasonDenied, 1
			}
			if err != nil || got.Reason != wantReason || p.Stats().Denied != wantDenied {
				t.Errorf("got %+v, %v, %d denials; want %s", got, err, p.Stats().Denied, wantReason)
			}
			if diff := cmp.Diff(c.want, w.dialed); diff != "" {
				t.Errorf("%s: %s", got.Output, diff)
			}
		})
	}
	t.Run("a server by a name that is not granted is not looked up", func(t *testing.T) {
		w.dialed, w.lookedUp = nil, nil
		p := loadAs(t, h, "dns", asking("dns", ask), grants(t, "dns://db.internal", "udp://*.internal:53", "udp://10.0.0.0/8:53")...)
		b := bind(t, p, `{"req":{"name":"db.internal","server":"secret.evil.example:53"}}`, target)
		if got, err := attempt(t, b, probe.Request{Target: target}, 5*time.Second); err != nil || got.Reason != probe.ReasonDenied || w.lookedUp != nil || w.dialed != nil {
			t.Errorf("got %+v, %v, looked up %v, dialled %v", got, err, w.lookedUp, w.dialed)
		}
	})
}

// TestLookUpsNeedRequests checks that a grant without a request has no effect, and that a guest that
// needs look-ups is not loaded without the grant.
func TestLookUpsNeedRequests(t *testing.T) {
	w := &wire{servers: []string{"127.0.0.53:53"}}
	h := w.host(t)
	target := probe.Target{Host: "10.0.0.7", Port: 53}
	for allowed, want := range map[string]probe.Reason{
		"dns://*.internal udp://10.0.0.2:53": probe.ReasonDNS,
		"dns://*.internal":                   probe.ReasonDenied,
		"dns://*.example udp://10.0.0.2:53":  probe.ReasonDenied,
	} {
		m := asking("dns", plugin.Request{Capability: "dns", Allow: strings.Fields(allowed)}, plugin.Request{Capability: "net", Allow: []string{"udp://*:*", "udp://10.0.0.2:53"}})
		p := loadAs(t, h, "dns", m, grants(t, "dns", "udp://10.0.0.0/8:53")...)
		b := bind(t, p, `{"req":{"name":"db.internal","server":"10.0.0.2:53"}}`, target)
		if got, err := attempt(t, b, probe.Request{Target: target}, 5*time.Second); err != nil || got.Reason != want {
			t.Errorf("%s: got %+v, %v, want %s", allowed, got, err, want)
		}
	}
	for _, c := range []struct {
		request plugin.Request
		grants  []string
		want    string
	}{
		{plugin.Request{Capability: "net"}, []string{"dns"}, `does not ask for the capability "dns"`},
		{plugin.Request{Capability: "dns"}, []string{"target"}, `the capability "dns" is not granted`},
		{plugin.Request{Capability: "dns"}, []string{"!dns"}, `the capability "dns" is not granted`},
	} {
		_, err := h.Load(t.Context(), plugin.Found{Module: guestFile(t, "dns"), Manifest: asking("dns", c.request), Grants: grants(t, c.grants...)})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v with %v: got %v, want %q", c.request, c.grants, err, c.want)
		}
	}
	p := loadAs(t, h, "dns", asking("dns", plugin.Request{Capability: "dns", Optional: true}))
	got, err := attempt(t, bind(t, p, `{"req":{"name":"db.internal"}}`, target), probe.Request{Target: target}, 5*time.Second)
	if err != nil || got.Output != `the capability "dns" is not granted` || p.Stats().Denied != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestGrantsOfLongDNSAnswers checks that a grant for UDP also permits long answers over TCP from the
// same server, unless TCP is denied.
func TestGrantsOfLongDNSAnswers(t *testing.T) {
	z := nameserver(t, func(network string, q dnsmessage.Message) [][]byte {
		if strings.HasPrefix(network, "udp") {
			return cut(q)
		}
		return [][]byte{answering(q, 0, home)}
	})
	_, port, err := net.SplitHostPort(z.addr)
	if err != nil {
		t.Fatal(err)
	}
	granted := "udp://127.0.0.1:" + port
	target := probe.Target{Host: "10.0.0.7", Port: 53}
	for _, c := range []struct {
		denied string
		want   probe.Reason
		asked  string
	}{
		{"!tcp://127.0.0.2", "", "udpe tcpe"},
		{"!tcp://127.0.0.1", probe.ReasonDenied, "udpe"},
		{"!tcp://localhost", probe.ReasonDenied, "udpe"},
	} {
		server, grant := "127.0.0.1:"+port, granted
		if c.denied == "!tcp://localhost" {
			server, grant = "localhost:"+port, "udp://localhost:"+port
		}
		m := asking("dns", plugin.Request{Capability: "dns", Allow: []string{"dns", grant}})
		p := loadAs(t, host, "dns", m, grants(t, "dns", grant, c.denied)...)
		b := bind(t, p, fmt.Sprintf(`{"req":{"name":"db.test","server":%q}}`, server), target)
		got, err := attempt(t, b, probe.Request{Target: target}, 5*time.Second)
		if seen := z.seen(); err != nil || got.Reason != c.want || seen != c.asked {
			t.Errorf("%s: got %+v, %v, asked over %s", c.denied, got, err, seen)
		}
	}
}

func TestRequestListsFeatures(t *testing.T) {
	for _, c := range []struct {
		requests []plugin.Request
		grants   []string
		want     string
	}{
		{nil, nil, `"features":["net","http","icmp"]`},
		{nil, []string{"dns", "kv"}, `"features":["net","http","icmp"]`},
		{[]plugin.Request{{Capability: "dns"}, {Capability: "kv"}}, []string{"dns", "kv"}, `"features":["net","http","dns","kv","icmp"]`},
		{[]plugin.Request{{Capability: "dns", Optional: true}, {Capability: "kv"}}, []string{"kv"}, `"features":["net","http","kv","icmp"]`},
	} {
		p := loadAs(t, host, "request", asking("request", c.requests...), grants(t, c.grants...)...)
		got, err := attempt(t, p, probe.Request{}, 5*time.Second)
		if err != nil || !strings.Contains(got.Output, c.want) {
			t.Errorf("%v with %v: got %+v, %v, want %s", c.requests, c.grants, got, err, c.want)
		}
	}
}

func TestRefusedLookUpsAreCounted(t *testing.T) {
	var log bytes.Buffer
	h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: true, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	code := assemble(t, `(module
  (import "prober_v1_dns" "lookup" (func $lookup (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "{\22name\22:\22evil.example\22}")
  (func (export "probe") (result i32)
    (local i32)
    loop
    i32.const 0
    i32.const 23
    i32.const -1
    call $lookup
    drop
    local.get 0
    i32.const 1
    i32.add
    local.tee 0
    i32.const 1000
    i32.lt_s
    br_if 0
    end
    i32.const 0))`)
	m := plugin.Minimal("asker")
	m.Requests = []plugin.Request{{Capability: "dns"}}
	p, err := h.Load(t.Context(), plugin.Found{Module: code, Manifest: m, Grants: grants(t, "dns://*.internal")})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := attempt(t, p, probe.Request{}, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "\n"); n != 8 || p.Stats().Denied != 8 {
		t.Errorf("%d lines of log and %d denials of 1,000 look-ups, want 8", n, p.Stats().Denied)
	}
}
