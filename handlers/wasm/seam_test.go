package wasm_test

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// page is the body of a response that implements Ready.
type page struct {
	io.Reader
	asked int // number of calls of Ready
}

func (p *page) Ready() bool {
	p.asked++
	return true
}

func (p *page) Close() error { return nil }

func TestCustomRoundTrip(t *testing.T) {
	var seen []string
	var body page
	h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: true, RoundTrip: func(req *http.Request, addr string) (*http.Response, error) {
		seen = append(seen, req.Method+" "+req.URL.String()+" to "+addr)
		if req.URL.Path == "/first" {
			return &http.Response{StatusCode: 302, Header: http.Header{"Location": {"https://10.0.0.7/second"}}, Body: http.NoBody, Request: req}, nil
		}
		body.Reader = strings.NewReader("all of it")
		return &http.Response{
			StatusCode: 200, Proto: "HTTP/9.9", Request: req, Body: &body, ContentLength: -1,
			Header: http.Header{"A-B": {"c"}}, TLS: &tls.ConnectionState{Version: tls.VersionTLS13, NegotiatedProtocol: "h9"},
		}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	target := probe.Target{Host: "10.0.0.7", Port: 443}
	p := load(t, h, "http", plugin.Reset)
	ask := map[string]any{"url": "https:///first", "redirects": 1, "tls": map[string]any{"serverName": "db"}}
	got, err := attempt(t, bind(t, p, request(t, ask, false), target), probe.Request{Target: target}, 5*time.Second)
	var head struct {
		Status             int
		Proto, URL, Remote string
		Headers            map[string]string
		TLS                struct{ Version, ALPN, ServerName string }
	}
	if err != nil || json.Unmarshal([]byte(got.Output), &head) != nil {
		t.Fatal(got, err)
	}
	if head.Status != 200 || head.Proto != "HTTP/9.9" || head.Remote != "10.0.0.7:443" || head.Headers["a-b"] != "c" ||
		head.TLS.Version != "TLS 1.3" || head.TLS.ALPN != "h9" || head.TLS.ServerName != "db" {
		t.Errorf("got %+v", head)
	}
	want := []string{"GET https://10.0.0.7:443/first to 10.0.0.7:443", "GET https://10.0.0.7/second to 10.0.0.7:443"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
	ask["url"] = "https:///second"
	got, err = attempt(t, bind(t, p, request(t, ask, true), target), probe.Request{Target: target}, 5*time.Second)
	if err != nil || got.Output != "all of it" || body.asked == 0 {
		t.Errorf("got %+v, %v, asked whether it is ready: %d", got, err, body.asked)
	}
	ask["url"] = "https://10.0.0.8/"
	if got, err = attempt(t, bind(t, p, request(t, ask, true), target), probe.Request{Target: target}, 5*time.Second); err != nil || got.Reason != probe.ReasonDenied || len(seen) != 3 {
		t.Errorf("got %+v, %v after %v, want a denial", got, err, seen)
	}
}
