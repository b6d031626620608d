package builtin_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/daeace23/prober/handlers/builtin/execprobe"
	"github.com/daeace23/prober/handlers/builtin/grpcprobe"
	"github.com/daeace23/prober/handlers/builtin/httpprobe"
	"github.com/daeace23/prober/handlers/builtin/tcpprobe"
	"github.com/daeace23/prober/probe"
)

func TestBindHTTP(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto+" "+r.Host+" "+r.URL.String()+" "+r.Header.Get("X-A")+" "+r.UserAgent())
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	port := portOf(t, s.Listener.Addr())
	secure := httptest.NewTLSServer(s.Config.Handler)
	t.Cleanup(secure.Close)
	declared := &probe.Container{Ports: []probe.Port{{Name: "web", Number: port}}}
	for _, c := range []struct {
		name   string
		action httpprobe.Action
		req    probe.Request
		want   string
	}{
		{"host, port, path", httpprobe.Action{Host: "127.0.0.1", Port: port, Path: "healthz?a=b"}, probe.Request{},
			"HTTP/1.1 " + s.Listener.Addr().String() + " /healthz?a=b  acme/1"},
		{"header", httpprobe.Action{Host: "127.0.0.1", Port: port, Header: http.Header{"host": {"shop"}, "x-a": {"y"}, "User-Agent": {"z"}}}, probe.Request{},
			"HTTP/1.1 shop / y z"},
		{"HTTP/2", httpprobe.Action{Host: "127.0.0.1", Port: port, UnencryptedHTTP2: true}, probe.Request{},
			"HTTP/2.0 " + s.Listener.Addr().String() + " /  acme/1"},
		{"HTTPS", httpprobe.Action{Host: "127.0.0.1", Port: portOf(t, secure.Listener.Addr()), Scheme: "https"}, probe.Request{},
			"HTTP/1.1 " + secure.Listener.Addr().String() + " /  acme/1"},
		{"name of a port, IP of the pod", httpprobe.Action{PortName: "web"}, probe.Request{PodIP: "127.0.0.1", Container: declared},
			"HTTP/1.1 " + s.Listener.Addr().String() + " /  acme/1"},
		{"target of the request", httpprobe.Action{}, probe.Request{Target: probe.Target{Host: "127.0.0.1", Port: port}},
			"HTTP/1.1 " + s.Listener.Addr().String() + " /  acme/1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := httpprobe.New(httpprobe.Config{UserAgent: "acme/1"}).Bind(c.action)
			if err != nil {
				t.Fatal(err)
			}
			got, err := attempt(t, h, c.req, time.Minute)
			want(t, got, err, probe.Success, c.want)
		})
	}
}

func TestBindTCP(t *testing.T) {
	port := portOf(t, listen(t, "tcp", "127.0.0.1:0"))
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
		got, err := attempt(t, h, c.req, time.Minute)
		want(t, got, err, probe.Success, "")
	}
}

func TestBindGRPC(t *testing.T) {
	s := httptest.NewTLSServer(nil) // only for its certificate
	t.Cleanup(s.Close)
	secure := grpc.Creds(credentials.NewServerTLSFromCert(&s.TLS.Certificates[0]))
	for name, options := range map[string][]grpc.ServerOption{"plaintext": nil, "TLS": {secure}} {
		t.Run(name, func(t *testing.T) {
			l, port := loopback(t)
			serveGRPC(t, l, answers(healthpb.HealthCheckResponse_SERVING), options...)
			h, err := grpcprobe.New(grpcprobe.Config{}).Bind(grpcprobe.Action{Host: "127.0.0.1", Port: port, TLS: options != nil})
			if err != nil {
				t.Fatal(err)
			}
			got, err := attempt(t, h, probe.Request{}, time.Minute)
			want(t, got, err, probe.Success, "service healthy")
		})
	}
}

func TestBindExec(t *testing.T) {
	h, err := execprobe.New(execprobe.Config{Runner: &execprobe.HostRunner{}})
	if err != nil {
		t.Fatal(err)
	}
	command := []string{"echo", "hello"}
	bound, err := h.Bind(execprobe.Action{Command: command})
	if err != nil {
		t.Fatal(err)
	}
	command[1] = "changed"
	got, err := attempt(t, bound, probe.Request{}, time.Minute)
	want(t, got, err, probe.Success, "hello\n")
}

func TestBindErrorsNameTheField(t *testing.T) {
	run, err := execprobe.New(execprobe.Config{Runner: &scriptedRunner{}})
	if err != nil {
		t.Fatal(err)
	}
	web, tcp, health := httpprobe.New(httpprobe.Config{}), tcpprobe.New(tcpprobe.Config{}), grpcprobe.New(grpcprobe.Config{})
	_, noCommand := run.Bind(execprobe.Action{})
	_, scheme := web.Bind(httpprobe.Action{Port: 80, Scheme: "gopher"})
	_, h2c := web.Bind(httpprobe.Action{Port: 443, Scheme: "HTTPS", UnencryptedHTTP2: true})
	_, webPort := web.Bind(httpprobe.Action{Port: 65536})
	_, tcpPort := tcp.Bind(tcpprobe.Action{Port: -1})
	_, healthPort := health.Bind(grpcprobe.Action{Port: 70000})
	for want, err := range map[string]error{
		"command: required": noCommand,
		`scheme: unknown scheme "gopher"; known: HTTP, HTTPS`: scheme,
		"protocol: HTTP2 is for scheme HTTP, not HTTPS":       h2c,
		"port: invalid port number: 65536":                    webPort,
		"port: invalid port number: -1":                       tcpPort,
		"port: invalid port number: 70000":                    healthPort,
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
