package builtin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/daeace23/prober/probe"
)

func TestFormatURL(t *testing.T) {
	for path, want := range map[string]string{
		"":          "http://localhost:93",
		"/path":     "http://localhost:93/path",
		"?foo":      "http://localhost:93?foo",
		"/path?bar": "http://localhost:93/path?bar",
	} {
		t.Run(fmt.Sprintf("#135 path %q", path), func(t *testing.T) {
			if got := formatURL("http", "localhost:93", path).String(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestWithHost(t *testing.T) {
	for _, c := range []struct{ scheme, path, host, want string }{
		{"", "healthz", "h", "http://h:80/healthz"},
		{"HTTPS", "/a?b=c", "fd00::1", "https://[fd00::1]:80/a?b=c"},
		{"HTTP", "http://evil:99/x", "h", "http://h:80/x"},
		{"HTTP", "//evil/x", "h", "http://h:80/x"},
		{"HTTP", "/%zz", "h", "http://h:80/%25zz"},
		{"HTTP", "/", "fe80::1%eth0", "http://[fe80::1%25eth0]:80/"},
	} {
		base, err := baseURL(c.scheme, c.path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := withHost(*base, endpoint{host: c.host, port: 80}); err != nil || got.String() != c.want {
			t.Errorf("%s %s: got %v, %v; want %s", c.scheme, c.path, got, err, c.want)
		}
	}
	base, err := baseURL("", "/")
	if err != nil {
		t.Fatal(err)
	}
	if u, err := withHost(*base, endpoint{host: "no host", port: 80}); err == nil {
		t.Errorf("a host with a space gave %s", u)
	}
}

func TestToHeader(t *testing.T) {
	cases := []struct {
		name  string
		given []v1.HTTPHeader
		want  http.Header
	}{
		{"#136 three headers", []v1.HTTPHeader{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}, {Name: "C", Value: ""}},
			http.Header{"A": {"1"}, "B": {"2"}, "C": {""}}},
		{"#136 names become canonical", []v1.HTTPHeader{{Name: "HOST", Value: "h"}, {Name: "FOO-bAR", Value: "f"}},
			http.Header{"Host": {"h"}, "Foo-Bar": {"f"}}},
		{"#136 none", nil, http.Header{}},
		{"#137 one", []v1.HTTPHeader{{Name: "Accept", Value: "application/json"}}, http.Header{"Accept": {"application/json"}}},
		{"#137 lower case", []v1.HTTPHeader{{Name: "accept", Value: "application/json"}}, http.Header{"Accept": {"application/json"}}},
		{"#137 repeated", []v1.HTTPHeader{{Name: "accept", Value: "a"}, {Name: "Accept", Value: "b"}}, http.Header{"Accept": {"a", "b"}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, toHeader(c.given)); diff != "" {
				t.Errorf("header (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConnectToPortMinusOne(t *testing.T) {
	t.Run("#139 port -1 is a failure and no error", func(t *testing.T) {
		h := &boundTCP{dial: Config{}.dialer()}
		got, err := h.connect(t.Context(), endpoint{host: "127.0.0.1", port: -1}, new(error))
		if err != nil || got.Result != probe.Failure || !strings.Contains(got.Output, "-1") {
			t.Errorf("got %v, output %q, error %v; want failure", got.Result, got.Output, err)
		}
	})
}

func TestReasonOf(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, c := range []struct {
		err  error
		want probe.Reason
	}{
		{dial(&net.DNSError{Err: "i/o timeout", IsTimeout: true}), probe.ReasonDNS},
		{dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), probe.ReasonConnectRefused},
		{dial(os.ErrDeadlineExceeded), probe.ReasonConnectTimeout},
		{dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), ""},
		{dial(os.NewSyscallError("socket", syscall.EMFILE)), probe.ReasonHostResources},
		{&url.Error{Op: "Get", URL: "u", Err: io.EOF}, probe.ReasonProtocol},
		{&url.Error{Op: "Get", URL: "u", Err: errors.New(`net/http: HTTP/1.x transport connection broken: malformed HTTP response "x"`)}, probe.ReasonProtocol},
		{&url.Error{Op: "Get", URL: "u", Err: errors.New("net/http: TLS handshake timeout")}, probe.ReasonTLS},
		{&url.Error{Op: "Get", URL: "u", Err: errors.New("remote error: tls: internal error")}, probe.ReasonTLS},
		{&url.Error{Op: "Get", URL: "u", Err: context.DeadlineExceeded}, probe.ReasonDeadline},
		{dial(&probe.Error{Reason: probe.ReasonDenied, Err: os.ErrDeadlineExceeded}), probe.ReasonDenied},
		{errors.New("broken"), probe.ReasonInternal},
	} {
		if got := reasonOf(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

// FuzzURL checks that every path becomes a URL and none leads to another target.
func FuzzURL(f *testing.F) {
	for _, path := range []string{"", "/", "healthz", "?a=b", "http://evil:99/x", "//evil", "/%zz", "//[::1", "#f", "/a b", "\x7f", "a:b"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		base, err := baseURL("HTTP", path)
		if err != nil {
			return // Prepare refuses it
		}
		u, err := withHost(*base, endpoint{host: "target", port: 80})
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

func TestResolvePort(t *testing.T) {
	c := &probe.Container{Ports: []probe.Port{{Name: "bar", Number: 80}, {Name: "foo", Number: 8080}}}
	cases := []struct {
		name   string
		port   intstr.IntOrString
		c      *probe.Container
		want   int
		broken bool
	}{
		{"#145 a name that exists", intstr.FromString("bar"), c, 80, false},
		{"#145 a name that is missing", intstr.FromString("baz"), c, 0, true},
		{"#146 443", intstr.FromInt32(443), c, 443, false},
		{"#146 66666", intstr.FromInt32(66666), c, 66666, true},
		{"#146 foo", intstr.FromString("foo"), c, 8080, false},
		{"#146 a missing name", intstr.FromString("foo"), &probe.Container{}, 0, true},
		{"#146 an invalid kind", intstr.IntOrString{Type: 7}, c, -1, true},
		{"no container", intstr.FromString("foo"), nil, 0, true},
		{"65535", intstr.FromInt32(65535), nil, 65535, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := resolvePort(c.port, c.c)
			if got != c.want || (err != nil) != c.broken {
				t.Errorf("got %d, %v; want %d, error: %v", got, err, c.want, c.broken)
			}
		})
	}
}
