package httpprobe_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/builtin/httpprobe"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
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
	port := rig.PortOf(t, s.Listener.Addr())
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
		{"HTTPS", httpprobe.Action{Host: "127.0.0.1", Port: rig.PortOf(t, secure.Listener.Addr()), Scheme: "https"}, probe.Request{},
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
			got, err := rig.Attempt(t, h, c.req, time.Minute)
			rig.Want(t, got, err, probe.Success, c.want)
		})
	}
}
