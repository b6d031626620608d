package httpprobe

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/handlers/builtin/internal/network"
	"github.com/daeace23/prober/internal/httpget"
)

func TestWithHost(t *testing.T) {
	for _, c := range []struct{ scheme, path, host, want string }{
		{"", "healthz", "h", "http://h:80/healthz"},
		{"HTTPS", "/a?b=c", "fd00::1", "https://[fd00::1]:80/a?b=c"},
		{"HTTP", "http://evil:99/x", "h", "http://h:80/x"},
		{"HTTP", "//evil/x", "h", "http://h:80/x"},
		{"HTTP", "/%zz", "h", "http://h:80/%25zz"},
		{"HTTP", "/", "fe80::1%eth0", "http://[fe80::1%25eth0]:80/"},
	} {
		base, err := httpget.URL(c.scheme, "host:1", c.path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := withHost(*base, network.Endpoint{Host: c.host, Port: 80}); err != nil || got.String() != c.want {
			t.Errorf("%s %s: got %v, %v; want %s", c.scheme, c.path, got, err, c.want)
		}
	}
	base, err := httpget.URL("", "host:1", "/")
	if err != nil {
		t.Fatal(err)
	}
	if u, err := withHost(*base, network.Endpoint{Host: "no host", Port: 80}); err == nil {
		t.Errorf("a host with a space gave %s", u)
	}
}

func TestHeader(t *testing.T) {
	cases := []struct {
		name, given string
		want        http.Header
	}{
		{"#136 three headers", `[{"name":"A","value":"1"},{"name":"B","value":"2"},{"name":"C","value":""}]`,
			http.Header{"A": {"1"}, "B": {"2"}, "C": {""}}},
		{"#136 names become canonical", `[{"name":"HOST","value":"h"},{"name":"FOO-bAR","value":"f"}]`,
			http.Header{"Host": {"h"}, "Foo-Bar": {"f"}}},
		{"#136 none", `[]`, http.Header{}},
		{"#137 one", `[{"name":"Accept","value":"application/json"}]`, http.Header{"Accept": {"application/json"}}},
		{"#137 lower case", `[{"name":"accept","value":"application/json"}]`, http.Header{"Accept": {"application/json"}}},
		{"#137 repeated", `[{"name":"accept","value":"a"},{"name":"Accept","value":"b"}]`, http.Header{"Accept": {"a", "b"}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := decode([]byte(`{"httpHeaders":` + c.given + `}`))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got.Header); diff != "" {
				t.Errorf("header (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzURL checks that every path becomes a URL, and that no path leads to another target.
func FuzzURL(f *testing.F) {
	for _, path := range []string{"", "/", "healthz", "?a=b", "http://evil:99/x", "//evil", "/%zz", "//[::1", "#f", "/a b", "\x7f", "a:b"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		base, err := httpget.URL("HTTP", "host:1", path)
		if err != nil {
			return // Prepare refuses the path
		}
		u, err := withHost(*base, network.Endpoint{Host: "target", Port: 80})
		if err != nil {
			t.Fatalf("%q: %v", path, err)
		}
		if u.Opaque == "" && (u.Scheme != "http" || u.Host != "target:80") {
			t.Errorf("%q leads to %s", path, u)
		}
		if again, err := url.Parse(u.String()); err == nil && again.Opaque == "" && again.Host != "target:80" {
			t.Errorf("%q leads to %s", path, again)
		}
	})
}
