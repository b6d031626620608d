package wasm_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

func grants(t testing.TB, texts ...string) []plugin.Grant {
	t.Helper()
	out, err := plugin.ParseGrants(texts)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// wire is a network without peers that records its dials and look-ups.
type wire struct {
	names    map[string][]string
	servers  []string // nameservers
	dialed   []string
	lookedUp []string
}

func (w *wire) dial(_ context.Context, network, addr string) (net.Conn, error) {
	w.dialed = append(w.dialed, network+" "+addr)
	return nil, errors.New("the wire is cut")
}

func (w *wire) lookup(_ context.Context, name string) ([]netip.Addr, error) {
	w.lookedUp = append(w.lookedUp, name)
	var addrs []netip.Addr
	for _, text := range w.names[name] {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	return addrs, nil
}

func (w *wire) host(t testing.TB) *wasm.Host {
	t.Helper()
	h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: true, DialContext: w.dial, LookupIP: w.lookup, DNSServers: w.servers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func asking(name string, requests ...plugin.Request) *plugin.Manifest {
	m := plugin.Minimal(name)
	m.Requests = requests
	return m
}

// TestDialAttacksAreDenied makes a guest dial denied addresses, and checks which are dialled.
func TestDialAttacksAreDenied(t *testing.T) {
	w := &wire{names: map[string][]string{
		"db.internal":      {"10.0.0.9"},
		"rebound.internal": {"127.0.0.1"},
		"stolen.internal":  {"169.254.169.254", "fd00:ec2::254", "::ffff:169.254.169.254"},
		"mixed.internal":   {"169.254.169.254", "127.0.0.1", "10.0.0.9", "10.6.6.6"},
		"loop.target":      {"127.0.0.1"},
		"localhost":        {"127.0.0.1", "::1"},
	}}
	h := w.host(t)
	everything := plugin.Request{Capability: "net", Allow: []string{
		"tcp://*:*", "udp://*:*", "tcp://0.0.0.0/0:*", "udp://0.0.0.0/0:*", "tcp://[::/0]:*",
		"unix:///run/x.sock", "unix:///run/granted.sock",
	}}
	target := probe.Target{Host: "10.0.0.7", Port: 80}
	for _, c := range []struct {
		name, url string
		grants    []string
		want      []string // dialled
	}{
		{"the target", "", nil, []string{"tcp 10.0.0.7:80"}},
		{"the target by its address", "tcp://10.0.0.7:80", nil, []string{"tcp 10.0.0.7:80"}},
		{"the target over udp", "udp://", nil, []string{"udp 10.0.0.7:80"}},
		{"the target, denied", "", []string{"!10.0.0.0/29"}, nil},
		{"another port of the target", "tcp://10.0.0.7:81", nil, nil},
		{"another port of a grant", "tcp://10.0.0.9:5433", []string{"tcp://10.0.0.9:5432"}, nil},
		{"the port of a grant", "tcp://10.0.0.9:5432", []string{"tcp://10.0.0.9:5432"}, []string{"tcp 10.0.0.9:5432"}},
		{"a grant by its name", "tcp://db.internal:5432", []string{"tcp://*.internal:5432"}, []string{"tcp 10.0.0.9:5432"}},
		{"a grant's address in place of its name", "tcp://10.0.0.9:5432", []string{"tcp://db.internal:5432"}, nil},
		{"the name of an address, not looked up", "tcp://db.internal:5432", []string{"tcp://10.0.0.0/8:5432"}, nil},
		{"udp where tcp is granted", "udp://10.0.0.9:53", []string{"tcp://10.0.0.9:53"}, nil},
		{"denied among what is granted", "tcp://10.6.6.6:80", []string{"tcp://10.0.0.0/8:80", "!10.6.0.0/16"}, nil},
		{"denied, by a name that leads there", "tcp://mixed.internal:80", []string{"tcp://*.internal:80", "!10.6.0.0/16"}, []string{"tcp 10.0.0.9:80"}},
		{"denied, mapped", "tcp://[::ffff:10.6.6.6]:80", []string{"tcp://10.0.0.0/8:80", "!10.6.0.0/16"}, nil},
		{"denied, by NAT64", "tcp://[64:ff9b::a06:606]:80", []string{"tcp://[::/0]:80", "!10.6.0.0/16"}, nil},
		{"rebinding to loopback", "tcp://rebound.internal:80", []string{"tcp://*.internal:80"}, nil},
		{"rebinding to the metadata", "tcp://stolen.internal:80", []string{"tcp://*.internal:80", "tcp://0.0.0.0/0:80", "tcp://[::/0]:80"}, nil},
		{"the metadata by a wildcard", "tcp://169.254.169.254:80", []string{"tcp://*:80"}, nil},
		{"the metadata by a range", "tcp://169.254.169.254:80", []string{"tcp://169.254.0.0/16:80"}, nil},
		{"the metadata, named", "tcp://169.254.169.254:80", []string{"tcp://169.254.169.254:80"}, []string{"tcp 169.254.169.254:80"}},
		{"the metadata, named at another port", "tcp://169.254.169.254:81", []string{"tcp://169.254.169.254:80", "tcp://*:81"}, nil},
		{"the metadata, mapped", "tcp://[::ffff:169.254.169.254]:80", []string{"tcp://*:*"}, nil},
		{"the metadata by 6to4", "tcp://[2002:a9fe:a9fe::]:80", []string{"tcp://*:*"}, nil},
		{"the metadata by a NAT64 of the site", "tcp://[64:ff9b:1::a9fe:a9fe]:80", []string{"tcp://*:*"}, nil},
		{"the metadata, translated", "tcp://[::ffff:0:a9fe:a9fe]:80", []string{"tcp://*:*"}, nil},
		{"loopback, translated", "tcp://[::ffff:0:7f00:1]:80", []string{"tcp://*:*"}, nil},
		{"link-local of IPv6", "tcp://[fe80::1]:80", []string{"tcp://*:*"}, nil},
		{"link-local of IPv6 with a zone", "tcp://[fe80::1%25eth0]:80", []string{"tcp://*:*"}, nil},
		{"loopback by a wildcard", "tcp://127.0.0.1:6379", []string{"tcp://*:*"}, nil},
		{"loopback of IPv6 by a wildcard", "tcp://[::1]:6379", []string{"tcp://*:*", "tcp://[::/0]:*"}, nil},
		{"loopback, mapped", "tcp://[::ffff:127.0.0.1]:6379", []string{"tcp://*:*"}, nil},
		{"loopback as localhost, by a wildcard", "tcp://localhost:6379", []string{"tcp://*:*"}, nil},
		{"loopback, named", "tcp://127.0.0.1:6379", []string{"tcp://127.0.0.1:6379"}, []string{"tcp 127.0.0.1:6379"}},
		{"loopback, named as localhost", "tcp://localhost:6379", []string{"tcp://localhost:6379"}, []string{"tcp 127.0.0.1:6379", "tcp [::1]:6379"}},
		{"the unspecified address", "tcp://0.0.0.0:80", []string{"tcp://*:*", "tcp://0.0.0.0:80"}, nil},
		{"broadcast", "udp://255.255.255.255:80", []string{"udp://*:*"}, nil},
		{"an octal address", "tcp://0177.0.0.1:80", []string{"tcp://*:*"}, nil},
		{"a decimal address", "tcp://2130706433:80", []string{"tcp://*:*"}, nil},
		{"a hexadecimal address", "tcp://0x7f000001:80", []string{"tcp://*:*"}, nil},
		{"an address of two parts", "tcp://127.1:80", []string{"tcp://*:*"}, nil},
		{"an address with a dot at its end", "tcp://127.0.0.1.:80", []string{"tcp://*:*"}, nil},
		{"a full-width address", "tcp://１２７.0.0.1:80", []string{"tcp://*:*"}, nil},
		{"a name with a user", "tcp://db.internal@10.0.0.9:80", []string{"tcp://*.internal:80"}, nil},
		{"a socket", "unix:///run/x.sock", nil, nil},
		{"a socket, granted", "unix:///run/x.sock", []string{"unix:///run/x.sock"}, []string{"unix /run/x.sock"}},
		{"a socket by another way", "unix:///run/y/../x.sock", []string{"unix:///run/x.sock"}, nil},
		{"another socket", "unix:///run/y.sock", []string{"unix:///run/x.sock", "tcp://*:*"}, nil},
		{"a socket, denied", "unix:///run/x.sock", []string{"unix:///run/x.sock", "!unix:///run/x.sock"}, nil},
		{"a socket, escaped", "unix:///run%2Fy.sock", []string{"unix:///run/x.sock"}, nil},
		{"no scheme", "10.0.0.7:80", []string{"tcp://*:*"}, nil},
		{"another scheme", "http://10.0.0.7:80", []string{"tcp://*:*"}, nil},
		{"no port", "tcp://10.0.0.7", []string{"tcp://*:*"}, nil},
		{"a port too high", "tcp://10.0.0.7:65616", []string{"tcp://*:*"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.dialed, w.lookedUp = nil, nil
			p := loadAs(t, h, "dialurl", asking("dialurl", everything), grants(t, c.grants...)...)
			b := bind(t, p, fmt.Sprintf(`{"url":%q}`, c.url), target)
			got, err := attempt(t, b, probe.Request{Target: target, PodIP: target.Host}, 5*time.Second)
			if err != nil || got.Result != probe.Failure {
				t.Errorf("got %+v, %v, want a failure", got, err)
			}
			if diff := cmp.Diff(c.want, w.dialed); diff != "" {
				t.Errorf("%s: %s", got.Output, diff)
			}
		})
	}
	t.Run("another grant does not permit loopback addresses of the target's name", func(t *testing.T) {
		w.dialed = nil
		target := probe.Target{Host: "localhost", Port: 80}
		p := loadAs(t, h, "dialurl", asking("dialurl", everything), grants(t, "tcp://*:80")...)
		b := bind(t, p, `{"url":"tcp://127.0.0.2:80"}`, target)
		if got, err := attempt(t, b, probe.Request{Target: target}, 5*time.Second); err != nil || got.Reason != probe.ReasonDenied || w.dialed != nil {
			t.Errorf("got %+v, %v, dialled %v", got, err, w.dialed)
		}
	})
}

// TestRebindingBetweenDials checks that a name is resolved and checked at each dial, and that the
// checked address is dialled.
func TestRebindingBetweenDials(t *testing.T) {
	w := &wire{names: map[string][]string{"db.internal": {"10.0.0.9"}}}
	p := loadAs(t, w.host(t), "dialurl", asking("dialurl", plugin.Request{Capability: "net", Allow: []string{"tcp://*:80"}}),
		grants(t, "tcp://*.internal:80")...)
	b := bind(t, p, `{"url":"tcp://db.internal:80"}`, probe.Target{Host: "10.0.0.7", Port: 80})
	for _, addr := range []string{"10.0.0.9", "127.0.0.1", "169.254.169.254"} {
		w.names["db.internal"] = []string{addr}
		if _, err := attempt(t, b, probe.Request{Target: probe.Target{Host: "10.0.0.7", Port: 80}}, 5*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"tcp 10.0.0.9:80"}, w.dialed); diff != "" {
		t.Error(diff)
	}
}

func TestUnneededNamesAreNotLookedUp(t *testing.T) {
	w := &wire{}
	h := w.host(t)
	target := probe.Target{Host: "10.0.0.7", Port: 80}
	ask := plugin.Request{Capability: "net", Allow: []string{"tcp://*:*"}}
	for _, c := range []struct {
		granted  string
		requests []plugin.Request
		want     []string
	}{
		{"tcp://10.0.0.0/8:80", []plugin.Request{ask}, nil},
		{"tcp://*.internal:80", []plugin.Request{ask}, nil},
		{"tcp://*:81", []plugin.Request{ask}, nil},
		{"tcp://*:80", nil, nil},
		{"tcp://*:80", []plugin.Request{ask}, []string{"secret.evil.example"}},
		{"tcp://10.0.0.0/8:80 dns", []plugin.Request{ask}, nil},
		{"tcp://10.0.0.0/8:80 dns", []plugin.Request{ask, {Capability: "dns"}}, []string{"secret.evil.example"}},
		{"tcp://10.0.0.0/8:80 dns !dns://*.evil.example", []plugin.Request{ask, {Capability: "dns"}}, nil},
	} {
		w.lookedUp = nil
		p := loadAs(t, h, "dialurl", asking("dialurl", c.requests...), grants(t, strings.Fields(c.granted)...)...)
		b := bind(t, p, `{"url":"tcp://secret.evil.example:80"}`, target)
		if got, err := attempt(t, b, probe.Request{Target: target}, 5*time.Second); err != nil || got.Result != probe.Failure {
			t.Errorf("%s: got %+v, %v", c.granted, got, err)
		}
		if diff := cmp.Diff(c.want, w.lookedUp); diff != "" || w.dialed != nil {
			t.Errorf("%s, %v: dialled %v, %s", c.granted, c.requests, w.dialed, diff)
		}
	}
}

// TestGrantsNeedRequests checks that a grant without a request has no effect.
func TestGrantsNeedRequests(t *testing.T) {
	w := &wire{}
	h := w.host(t)
	target := probe.Target{Host: "10.0.0.7", Port: 80}
	for allow, want := range map[string][]string{
		"":                      nil,
		"target":                nil,
		"tcp://10.0.0.9:5432":   {"tcp 10.0.0.9:5432"},
		"tcp://*:5432":          {"tcp 10.0.0.9:5432"},
		"tcp://10.0.0.9:80":     nil,
		"https://10.0.0.9:5432": nil,
	} {
		w.dialed = nil
		var requests []plugin.Request
		if allow != "" {
			requests = append(requests, plugin.Request{Capability: "net", Allow: []string{allow}})
		}
		p := loadAs(t, h, "dialurl", asking("dialurl", requests...), grants(t, "tcp://10.0.0.0/8:*")...)
		b := bind(t, p, `{"url":"tcp://10.0.0.9:5432"}`, target)
		if _, err := attempt(t, b, probe.Request{Target: target}, 5*time.Second); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, w.dialed); diff != "" {
			t.Errorf("%s: %s", allow, diff)
		}
	}
	_, err := h.Load(t.Context(), plugin.Found{Module: guestFile(t, "dialurl"), Manifest: asking("dialurl", plugin.Request{Capability: "net", Allow: []string{"nonsense"}})})
	if err == nil || !strings.Contains(err.Error(), `requests: net: grant "nonsense"`) {
		t.Errorf("got %v, want the pattern that is wrong", err)
	}
}

func TestGrantedSocketIsReached(t *testing.T) {
	path := socketPath(t)
	serve(t, "unix", path)
	pattern := "unix://" + path
	p := loadAs(t, host, "dialurl", asking("dialurl", plugin.Request{Capability: "net", Allow: []string{pattern}}), grants(t, pattern)...)
	target := probe.Target{Host: "127.0.0.1", Port: 1}
	var denied []string
	got, err := attempt(t, bind(t, p, fmt.Sprintf(`{"url":%q}`, pattern), target), probe.Request{Target: target, Debug: true, Trace: func(e probe.TraceEvent) {
		if e.Type == probe.TraceDenied {
			denied = append(denied, e.Detail)
		}
	}}, 5*time.Second)
	if err != nil || got.Result != probe.Success || !strings.Contains(got.Output, `"network":"unix"`) || len(denied) > 0 {
		t.Errorf("got %+v, %v, denied %v", got, err, denied)
	}
	got, err = attempt(t, bind(t, p, `{"url":"unix:///run/other.sock"}`, target), probe.Request{Target: target, Debug: true, Trace: func(e probe.TraceEvent) {
		if e.Type == probe.TraceDenied {
			denied = append(denied, e.Detail)
		}
	}}, 5*time.Second)
	if err != nil || got.Reason != probe.ReasonDenied || !slices.Contains(denied, "dial unix /run/other.sock: denied: not the probe's target, and not both requested by the plugin and granted") || p.Stats().Denied != 1 {
		t.Errorf("got %+v, %v, denied %v of %d", got, err, denied, p.Stats().Denied)
	}
}

func TestNoTarget(t *testing.T) {
	p := load(t, host, "dialurl", plugin.Reset)
	for _, url := range []string{"", "tls://"} {
		got, err := attempt(t, bind(t, p, `{"url":"`+url+`"}`, probe.Target{}), probe.Request{}, 5*time.Second)
		if err != nil || got.Result != probe.Failure || !strings.HasSuffix(got.Output, ": the probe has no target") {
			t.Errorf("%q: got %+v, %v", url, got, err)
		}
	}
}

// TestTargetNameKeepsTrailingDot checks that the spelling in the target, not in the guest's URL, decides
// whether search domains are used.
func TestTargetNameKeepsTrailingDot(t *testing.T) {
	for _, c := range [][2]string{{"db.internal.", "tcp://db.internal:5432"}, {"db.internal", "tcp://DB.internal.:5432"}, {"db.internal", ""}} {
		w := &wire{names: map[string][]string{"db.internal.": {"10.0.0.7"}, "db.internal": {"10.0.0.7"}}}
		p := load(t, w.host(t), "dialurl", plugin.Reset)
		target := probe.Target{Host: c[0], Port: 5432}
		if _, err := attempt(t, bind(t, p, `{"url":"`+c[1]+`"}`, target), probe.Request{Target: target}, 5*time.Second); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{c[0]}, w.lookedUp); diff != "" {
			t.Errorf("%q of %q: %s", c[1], c[0], diff)
		}
	}
}
