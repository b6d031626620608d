package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/daeace23/prober/handlers/builtin/internal/action"
	"github.com/daeace23/prober/probe"
)

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
		{&url.Error{Op: "Get", URL: "u", Err: errors.New("net/http: server response headers exceeded 10240 bytes; aborted")}, probe.ReasonProtocol},
		{&url.Error{Op: "Get", URL: "u", Err: errors.New("net/http: TLS handshake timeout")}, probe.ReasonTLS},
		{&url.Error{Op: "Get", URL: "u", Err: errors.New("remote error: tls: internal error")}, probe.ReasonTLS},
		{&url.Error{Op: "Get", URL: "u", Err: context.DeadlineExceeded}, probe.ReasonDeadline},
		{&url.Error{Op: "Get", URL: "u", Err: &net.OpError{Op: "write", Net: "tcp", Err: os.ErrDeadlineExceeded}}, probe.ReasonDeadline},
		{dial(&probe.Error{Reason: probe.ReasonDenied, Err: os.ErrDeadlineExceeded}), probe.ReasonDenied},
		{errors.New("broken"), probe.ReasonInternal},
	} {
		if got := reasonOf(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

func TestResolvePort(t *testing.T) {
	c := &probe.Container{Ports: []probe.Port{{Name: "bar", Number: 80}, {Name: "foo", Number: 8080}}}
	cases := []struct {
		name   string
		port   action.Port
		c      *probe.Container
		want   int
		broken bool
	}{
		{"#145 a name that exists", action.Text("bar"), c, 80, false},
		{"#145 a name that is missing", action.Text("baz"), c, 0, true},
		{"#146 443", action.Number(443), c, 443, false},
		{"#146 66666", action.Number(66666), c, 66666, true},
		{"#146 foo", action.Text("foo"), c, 8080, false},
		{"#146 a missing name", action.Text("foo"), &probe.Container{}, 0, true},
		{"no container", action.Text("foo"), nil, 0, true},
		{"65535", action.Number(65535), nil, 65535, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := resolvePort(c.port, c.c, false)
			if got != c.want || (err != nil) != c.broken {
				t.Errorf("got %d, %v; want %d, error: %v", got, err, c.want, c.broken)
			}
		})
	}
}

func TestMissingPortIsExplained(t *testing.T) {
	many := &probe.Container{Name: "web"}
	for i := range 10 {
		many.Ports = append(many.Ports, probe.Port{Name: fmt.Sprint("p", i), Number: 80 + i})
	}
	for _, c := range []struct {
		port string
		c    *probe.Container
		want string
	}{
		{"nosuch", &probe.Container{Name: "web", Ports: []probe.Port{{Name: "http", Number: 8080}, {Number: 1}, {Name: "metrics", Number: 9090}}}, `port "nosuch" not found: container "web" has http (8080), metrics (9090)`},
		{"nosuch", &probe.Container{Name: "web", Ports: []probe.Port{{Number: 8080}}}, `port "nosuch" not found: container "web" has ports without names`},
		{"nosuch", &probe.Container{Name: "web"}, `port "nosuch" not found: container "web" has no ports`},
		{"nosuch", many, `port "nosuch" not found: container "web" has p0 (80), p1 (81), p2 (82), p3 (83), p4 (84), p5 (85), p6 (86), p7 (87) and 2 more`},
		{"nosuch", nil, `port "nosuch" not found: must be a number, since there is no container with ports`},
		{"99999999999999999999", &probe.Container{Name: "web"}, `port "99999999999999999999" not found: container "web" has no ports`},
		{"a\n\x1b", &probe.Container{Name: "web"}, `port "a\n\x1b" not found: container "web" has no ports`},
		{"", &probe.Container{Name: "web"}, `port "" not found: container "web" has no ports`},
		{"8080", &probe.Container{Name: "web"}, `port "8080" not found: container "web" has no ports`},
	} {
		if _, err := resolvePort(action.Text(c.port), c.c, false); err == nil || err.Error() != c.want {
			t.Errorf("%q: got %v, want %s", c.port, err, c.want)
		}
	}
}
