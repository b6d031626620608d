package docstest_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// dialGuest dials the URL in its config, and returns 0 or the number of the error, of
// which EACCES, 2, is a Failure. It is what wat2wasm makes of this:
//
//	(module
//	  (import "prober_v1" "config_get" (func $config (param i32 i32 i32 i32) (result i32)))
//	  (import "prober_v1_net" "dial" (func $dial (param i32 i32 i32) (result i32)))
//	  (memory (export "memory") 1)
//	  (data (i32.const 0) "url")
//	  (func (export "probe") (result i32)
//	    (local $n i32)
//	    (local.set $n (call $config (i32.const 0) (i32.const 3) (i32.const 16) (i32.const 1024)))
//	    (local.set $n (call $dial (i32.const 16) (local.get $n) (i32.const -1)))
//	    (select (i32.const 0) (i32.sub (i32.const 0) (local.get $n)) (i32.gt_s (local.get $n) (i32.const 0)))))
const dialGuest = "AGFzbQEAAAABFANgBH9/f38Bf2ADf39/AX9gAAF/Ai0CCXByb2Jlcl92MQpjb25maWdfZ2V0AAANcHJvYmVyX3YxX25ldARkaWFsAAED" +
	"AgECBQMBAAEHEgIGbWVtb3J5AgAFcHJvYmUAAgoqASgBAX9BAEEDQRBBgAgQACEAQRAgAEF/EAEhAEEAQQAgAGsgAEEAShsLCwkBAEEACwN1cmw="

// fakeHost is a host on whose network everybody answers.
func fakeHost(t *testing.T) *wasm.Host {
	t.Helper()
	names := map[string]string{"db.internal": "10.0.0.9", "rebound.internal": "127.0.0.1"}
	host, err := wasm.New(wasm.Config{
		CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			return ours, theirs.Close()
		},
		LookupIP: func(_ context.Context, name string) ([]netip.Addr, error) {
			addr, err := netip.ParseAddr(names[name])
			return []netip.Addr{addr}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	return host
}

// TestABIGrants has a guest dial what the page says it may and may not.
func TestABIGrants(t *testing.T) {
	atRoot(t)
	tables := part(t, "Capabilities and grants").tables
	if len(tables) != 4 {
		t.Fatalf("%d tables, want the capabilities, the patterns, the addresses and the examples", len(tables))
	}
	var all strings.Builder
	for _, row := range tables[1] {
		for _, pattern := range codes(row[0]) {
			if _, err := plugin.ParseGrant(pattern); err != nil {
				t.Error(err)
			}
		}
		all.WriteString(row[0] + row[1])
	}
	_, err := plugin.ParseGrant("no://such")
	_, known, _ := strings.Cut(err.Error(), "known: ")
	for _, pattern := range append(regexp.MustCompile(`\b[a-z]+(?:://)?`).FindAllString(known, -1), "!") {
		if !strings.Contains(all.String(), "`"+pattern) {
			t.Errorf("there is no pattern like %s", pattern)
		}
	}
	host := fakeHost(t)
	for _, row := range tables[3] {
		url := ""
		if dialled := codes(row[0]); len(dialled) > 0 {
			url = dialled[0]
		}
		t.Run(url+" with "+row[1], func(t *testing.T) {
			got, err := dialAs(t, host, url, codes(row[1]))
			if err != nil {
				t.Fatal(err)
			}
			answer := "connected"
			if got.Result != probe.Success {
				answer = "EACCES"
			}
			if got.Reason != "" && got.Reason != probe.ReasonDenied {
				t.Errorf("another failure: %+v", got)
			}
			if answer != row[2] {
				t.Errorf("got %s (%+v), the page says %s", answer, got, row[2])
			}
		})
	}
}

// dialAs probes 10.0.0.7:80 with a guest that dials url and was granted so much.
func dialAs(t *testing.T, host *wasm.Host, url string, granted []string) (probe.Outcome, error) {
	t.Helper()
	module, err := base64.StdEncoding.DecodeString(dialGuest)
	if err != nil {
		t.Fatal(err)
	}
	grants, err := plugin.ParseGrants(granted)
	if err != nil {
		t.Fatal(err)
	}
	manifest := plugin.Minimal("page")
	manifest.Requests = []plugin.Request{{Capability: "net", Allow: []string{"tcp://*:*", "tcp://0.0.0.0/0:*"}}}
	h, err := host.Load(t.Context(), plugin.Found{Module: module, Manifest: manifest, Grants: grants})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	doc, err := json.Marshal(map[string]string{"url": url})
	if err != nil {
		t.Fatal(err)
	}
	target := probe.Target{Host: "10.0.0.7", Port: 80}
	bound, err := h.Prepare(doc, target)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return bound.Probe(ctx, probe.Request{Target: target, PodIP: target.Host})
}
