package httpprobe_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/handlers/builtin/httpprobe"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/probe"
)

// certificate returns the certificate of a test server.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	return s.TLS.Certificates[0]
}

// sameTLSAnswer checks that net/http and the lean path return the same outcome, at a server that calls
// serve with each connection. With hangs, the attempt is expected to time out, so the timeout is short.
func sameTLSAnswer(t *testing.T, serve func(net.Conn), hangs bool) answer {
	t.Helper()
	port := rig.Peer(t, func(c net.Conn) {
		serve(c)
		_ = c.Close()
	})
	h, err := httpprobe.New(httpprobe.Config{}).Bind(httpprobe.Action{Scheme: "HTTPS", Host: "127.0.0.1", Port: port, Path: "/healthz"})
	if err != nil {
		t.Fatal(err)
	}
	timeout := time.Minute
	if hangs {
		timeout = 500 * time.Millisecond
	}
	ask := func(by func(probe.Handler) probe.Handler) (got answer) {
		if got.Outcome, err = rig.Attempt(t, by(h), probe.Request{}, timeout); err != nil {
			got.Err = err.Error()
		}
		got.Outcome.Details = "" // contains durations
		return got
	}
	got := ask(rig.Traced)
	if diff := cmp.Diff(ask(rig.ByNetHTTP), got); diff != "" {
		t.Errorf("(-net/http +lean):\n%s", diff)
	}
	return got
}

// overTLS returns a server with TLS that answers one request with respond.
func overTLS(cfg *tls.Config, respond func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		s := tls.Server(c, cfg)
		if s.Handshake() != nil {
			return
		}
		defer s.Close()
		requestFrom(s)
		respond(s)
	}
}

func TestHandshakeMatchesNetHTTP(t *testing.T) {
	with := certificate(t)
	http1 := &tls.Config{Certificates: []tls.Certificate{with}, NextProtos: []string{"http/1.1"}}
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	for name, c := range map[string]struct {
		serve func(net.Conn)
		want  string // part of the output
		hangs bool
	}{
		"http/1.1":           {overTLS(http1, writes(ok)), "ok", false},
		"no ALPN":            {overTLS(&tls.Config{Certificates: http1.Certificates}, writes(ok)), "ok", false},
		"TLS 1.2":            {overTLS(&tls.Config{Certificates: http1.Certificates, MaxVersion: tls.VersionTLS12}, writes(ok)), "ok", false},
		"TLS 1.1":            {overTLS(&tls.Config{Certificates: http1.Certificates, MaxVersion: tls.VersionTLS11}, writes(ok)), "tls: ", false},
		"unknown protocol":   {overTLS(&tls.Config{Certificates: http1.Certificates, NextProtos: []string{"spdy"}}, writes(ok)), "remote error: tls: no application protocol", false},
		"no certificate":     {overTLS(new(tls.Config), writes(ok)), "remote error: tls: ", false},
		"body until the end": {overTLS(http1, writes("HTTP/1.1 200 OK\r\n\r\nall")), "all", false},
		"odd response":       {overTLS(http1, writes("HTTP/1.1 200 OK\nContent-Length: 2\n\nok")), "ok", false},
		"malformed response": {overTLS(http1, writes("nothing known\r\n")), "malformed HTTP", false},
		"no response":        {overTLS(http1, hangs()), "Client.Timeout exceeded while awaiting headers", true},
		"half of a body":     {overTLS(http1, hangs("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")), "while reading body", true},
		"redirect":           {overTLS(http1, writes("HTTP/1.1 302 Found\r\nLocation: /healthz\r\nContent-Length: 0\r\n\r\n")), "stopped after 10 redirects", false},
		"end of the stream":  {func(c net.Conn) { _ = c.(*net.TCPConn).CloseWrite(); rig.Silent(c) }, "EOF", false},
		"plain HTTP":         {func(c net.Conn) { go rig.Silent(c); writes("HTTP/1.1 400 Bad Request\r\n\r\n")(c) }, "server gave HTTP response to HTTPS client", false},
		"not TLS":            {func(c net.Conn) { go rig.Silent(c); writes("SSH-2.0-OpenSSH_9.9\r\n")(c) }, "first record does not look like a TLS handshake", false},
		"no handshake":       {rig.Silent, "context deadline exceeded", true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sameTLSAnswer(t, c.serve, c.hangs); !strings.Contains(got.Outcome.Output, c.want) {
				t.Errorf("output %q, want %q", got.Outcome.Output, c.want)
			}
		})
	}
}

func TestHandshakeTimeoutMatchesNetHTTP(t *testing.T) {
	ask := func(by func(probe.Handler) probe.Handler) (got answer) {
		synctest.Test(t, func(t *testing.T) {
			dial := func(context.Context, string, string) (net.Conn, error) {
				here, there := net.Pipe()
				go func() {
					rig.Silent(there)
					there.Close()
				}()
				return here, nil
			}
			h, err := httpprobe.New(httpprobe.Config{DialContext: dial}).Bind(httpprobe.Action{Scheme: "HTTPS", Host: "10.0.0.1", Port: 443})
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			if got.Outcome, err = rig.Attempt(t, by(h), probe.Request{}, time.Minute); err != nil || time.Since(begin) != 10*time.Second {
				t.Errorf("%v after %v", err, time.Since(begin))
			}
		})
		return got
	}
	if diff := cmp.Diff(ask(rig.ByNetHTTP), ask(rig.Traced)); diff != "" {
		t.Errorf("(-net/http +lean):\n%s", diff)
	}
}

func TestClientHelloMatchesNetHTTP(t *testing.T) {
	hellos := make(chan *tls.ClientHelloInfo, 1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	s.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		hello.Conn = nil
		hellos <- hello
		return nil, nil
	}}
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	h, err := httpprobe.New(httpprobe.Config{}).Bind(httpprobe.Action{Scheme: "HTTPS", Host: "127.0.0.1", Port: rig.PortOf(t, s.Listener.Addr())})
	if err != nil {
		t.Fatal(err)
	}
	hello := func(by func(probe.Handler) probe.Handler) *tls.ClientHelloInfo {
		got, err := rig.Attempt(t, by(h), probe.Request{}, time.Minute)
		rig.Want(t, got, err, probe.Success, "HTTP/2.0")
		return <-hellos
	}
	public := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".ctx" || p.Last().String() == ".config" }, cmp.Ignore())
	if diff := cmp.Diff(hello(rig.ByNetHTTP), hello(rig.Traced), public, cmp.AllowUnexported(tls.ClientHelloInfo{})); diff != "" {
		t.Errorf("(-net/http +lean):\n%s", diff)
	}
}
