package plugin_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/plugin"
)

func TestEffectiveGrants(t *testing.T) {
	grants, err := plugin.ParseGrants([]string{"tcp://10.0.0.0/8:5000-6000", "tcp://db.internal:22", "dns://*.internal", "!tcp://10.0.0.1:*"})
	if err != nil {
		t.Fatal(err)
	}
	got := plugin.EffectiveGrants([]plugin.Request{
		{Capability: "net", Allow: []string{"tcp://db.internal:5432", "tcp://*.internal:22", "udp://*:53", "no pattern"}},
		{Capability: "http", Allow: []string{"target", "https://10.1.2.3:5001/v1/*"}},
		{Capability: "dns"},
		{Capability: "kv", Optional: true},
	}, grants)
	want := []plugin.Effective{
		{Capability: "net", Asked: "target", Granted: []string{"target"}},
		{Capability: "net", Asked: "tcp://db.internal:5432", Granted: []string{"tcp://10.0.0.0/8:5000-6000"}},
		{Capability: "net", Asked: "tcp://*.internal:22", Granted: []string{"tcp://db.internal:22"}},
		{Capability: "net", Asked: "udp://*:53", Granted: []string{}},
		{Capability: "http", Asked: "target", Granted: []string{"target"}},
		{Capability: "http", Asked: "https://10.1.2.3:5001/v1/*", Granted: []string{"tcp://10.0.0.0/8:5000-6000"}},
		{Capability: "dns", Asked: "dns", Granted: []string{"dns://*.internal"}},
		{Capability: "kv", Asked: "kv", Granted: []string{}, Optional: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestOverlaps(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"kv", "kv", true},
		{"kv", "target", false},
		{"dns", "kv", false},
		{"dns", "tcp://a:1", false},
		{"dns://a.b", "dns", true},
		{"dns://*.b", "dns://*.a.b", true},
		{"dns://*.b", "dns://*.c", false},
		{"unix:///a", "unix:///a", true},
		{"unix:///a", "unix:///b", false},
		{"unix:///a", "tcp://*:*", false},
		{"tcp://*:*", "udp://*:*", false},
		{"tcp://*:*", "tls://a:1", true},
		{"tls://a:1", "https://a:1/", true},
		{"tls://a:1", "http://a:1/", false},
		{"http://a:1/", "https://a:1/", false},
		{"tcp://a:1-5", "tcp://a:5-9", true},
		{"tcp://a:1-5", "tcp://a:6-9", false},
		{"tcp://a:1", "tcp://b:1", false},
		{"tcp://*.b:1", "tcp://a.b:1", true},
		{"tcp://*.b:1", "tcp://b:1", false},
		{"tcp://10.0.0.0/8:1", "tcp://10.1.0.0/16:1", true},
		{"tcp://10.0.0.0/8:1", "tcp://11.0.0.1:1", false},
		{"tcp://10.0.0.0/8:1", "tcp://a:1", true},
		{"https://a/v1/*", "https://a/v1/x", true},
		{"https://a/v1/*", "https://a/v2/*", false},
		{"https://a/v1/*", "https://a/v1/x/*", true},
		{"https://a/v1", "https://a/v2", false},
	} {
		a, err := plugin.ParseGrant(c.a)
		if err != nil {
			t.Fatal(err)
		}
		b, err := plugin.ParseGrant(c.b)
		if err != nil {
			t.Fatal(err)
		}
		if a.Overlaps(b) != c.want || b.Overlaps(a) != c.want {
			t.Errorf("%s and %s: got %v and %v, want %v", c.a, c.b, a.Overlaps(b), b.Overlaps(a), c.want)
		}
	}
}

// Two patterns that match the same dial overlap.
func FuzzOverlaps(f *testing.F) {
	f.Add("tcp://10.0.0.0/8:1-9", "tls://a.b:5", "tls", "a.b", "10.1.1.1", uint16(5), "")
	f.Add("https://a/v1/*", "https://a/v1/x", "https", "a", "10.1.1.1", uint16(443), "/v1/x")
	f.Add("unix:///a", "unix:///a", "unix", "", "", uint16(0), "/a")
	f.Fuzz(func(t *testing.T, one, two, scheme, name, addr string, port uint16, path string) {
		a, errA := plugin.ParseGrant(one)
		b, errB := plugin.ParseGrant(two)
		if errA != nil || errB != nil || a.Deny() || b.Deny() {
			return
		}
		d := plugin.Dial{Scheme: scheme, Name: name, Port: port, Path: path}
		d.Addr, _ = netip.ParseAddr(addr)
		if a.Matches(d) && b.Matches(d) && !(a.Overlaps(b) && b.Overlaps(a)) {
			t.Errorf("%s and %s both match %+v, and do not overlap", one, two, d)
		}
	})
}
