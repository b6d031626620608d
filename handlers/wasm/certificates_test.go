package wasm_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/daeace23/prober/internal/certificates"
	"github.com/daeace23/prober/internal/handshake"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// watcher is an observer that keeps the certificates of handshakes.
type watcher struct{ shown []certificates.Shown }

func (*watcher) WatchHandshakes()                 {}
func (w *watcher) Handshook(s certificates.Shown) { w.shown = append(w.shown, s) }

// TestHostReportsCertificates has each function of the host that makes a handshake.
func TestHostReportsCertificates(t *testing.T) {
	s, target := web(t, (*httptest.Server).StartTLS, "")
	proxy := proxying(t, func(*http.Request) {})
	tunnel := loadAs(t, host, "http", asking("http", plugin.Request{Capability: "http", Allow: []string{"http://*:*"}}), grants(t, proxy.URL)...)
	dial, ask := load(t, host, "dialurl", plugin.Reset), load(t, host, "http", plugin.Reset)
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	type object = map[string]any
	request := func(tls object, more object) object {
		req := object{"url": "https:///a", "tls": tls}
		maps.Copy(req, more)
		return object{"req": req}
	}
	for _, c := range []struct {
		name               string
		plugin             probe.Preparer
		config             any
		verified, rejected bool
	}{
		{name: "dial", plugin: dial, config: object{"url": "tls://?verify=none"}},
		{name: "dial, rejected", plugin: dial, config: object{"url": "tls://"}, rejected: true},
		{name: "http", plugin: ask, config: request(object{"verify": "none"}, nil)},
		{name: "http, verified", plugin: ask, config: request(object{"ca": ca}, nil), verified: true},
		{name: "http, rejected", plugin: ask, config: request(object{}, nil), rejected: true},
		{name: "proxy, verified", plugin: tunnel, config: request(object{"ca": ca}, object{"proxy": proxy.URL}), verified: true},
		{name: "proxy, rejected", plugin: tunnel, config: request(object{}, object{"proxy": proxy.URL}), rejected: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc, err := json.Marshal(c.config)
			if err != nil {
				t.Fatal(err)
			}
			w := new(watcher)
			ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), handshake.Key{}, w), patience)
			defer cancel()
			if _, err := bind(t, c.plugin, string(doc), target).Probe(ctx, probe.Request{Target: target}); err != nil {
				t.Fatal(err)
			}
			if len(w.shown) != 1 {
				t.Fatalf("%d handshakes, want 1", len(w.shown))
			}
			got := w.shown[0]
			if len(got.Sent) != 1 || !got.Sent[0].Equal(s.Certificate()) || (got.Verified != nil) != c.verified || (got.Err != nil) != c.rejected {
				t.Errorf("got %+v", got)
			}
		})
	}
}
