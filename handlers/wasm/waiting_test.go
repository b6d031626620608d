package wasm_test

import (
	"context"
	"encoding/json"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// hang makes two attempts that must reach their deadline, one with a tracer and one without, and
// matches the details with pattern.
func hang(t *testing.T, h probe.Handler, target probe.Target, pattern string) {
	t.Helper()
	var last probe.TraceEvent
	for _, trace := range []probe.Tracer{nil, func(e probe.TraceEvent) { last = e }} {
		out, err := overrun(t, h, probe.Request{Target: target, Debug: true, Trace: trace}, 200*time.Millisecond)
		if err != nil || out.Reason != probe.ReasonDeadline || !strings.HasPrefix(out.Output, "timed out after ") {
			t.Fatalf("got %+v, %v", out, err)
		}
		var details struct{ Waiting string }
		if err := json.Unmarshal([]byte(out.Details), &details); err != nil {
			t.Fatalf("details %q: %v", out.Details, err)
		}
		if !regexp.MustCompile(pattern).MatchString(details.Waiting) {
			t.Errorf("%q does not match %s", details.Waiting, pattern)
		}
		if trace != nil && (last.Type != probe.TraceWait || !strings.HasPrefix(details.Waiting, last.Name) || last.Duration <= 0) {
			t.Errorf("the last event is %+v, the details say %s", last, details.Waiting)
		}
	}
}

func TestTimeoutDetailsNameActivity(t *testing.T) {
	const took = `for [0-9.]+m?s; `
	for name, pattern := range map[string]string{
		"spin":  `^guest: computing ` + took + `no host call since it began$`,
		"sleep": `^guest: sleeping ` + took + `poll_oneoff of WASI$`,
		"hang":  `^read tcp 127.0.0.1:\d+: waiting ` + took + `connected after .*; 0 bytes sent, 0 received; before: waited .* in 1 host call$`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hang(t, load(t, host, name, plugin.Reset), blackHole(t), pattern)
		})
	}
	t.Run("polls without waiting", func(t *testing.T) {
		code := assemble(t, `(module
  (import "prober_v1" "log_enabled" (func $enabled (param i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "probe") (result i32)
    loop
      i32.const 0
      call $enabled
      drop
      br 0
    end
    i32.const 0))`)
		p, err := host.Load(t.Context(), plugin.Found{Module: code, Manifest: plugin.Minimal("busy")})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		hang(t, p, probe.Target{}, `^guest: computing `+took+`[1-9]\d+ host calls that did not wait, the last one log_enabled since it began$`)
	})
	t.Run("sleeps again and again", func(t *testing.T) {
		code := assemble(t, `(module
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "probe") (result i32)
    loop
      i32.const 24
      i64.const 10000000
      i64.store
      i32.const 0
      i32.const 64
      i32.const 1
      i32.const 128
      call $poll
      drop
      br 0
    end
    i32.const 0))`)
		p, err := host.Load(t.Context(), plugin.Found{Module: code, Manifest: plugin.Minimal("dozes")})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		hang(t, p, probe.Target{}, `^guest: sleeping for [12]\d\dms; poll_oneoff of WASI; in \d+ calls|^guest: computing.*before: slept \d+ms in \d+ sleeps?$`)
	})
}

func TestTimeoutDetailsNameDialStage(t *testing.T) {
	waits := func(ctx context.Context, network, addr string) (net.Conn, error) {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Net: network, Err: context.DeadlineExceeded}
	}
	h, err := wasm.New(wasm.Config{CacheDir: testCache(scratch), Interpreter: interpreter, DialContext: waits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	everything := plugin.Request{Capability: "net", Allow: []string{"tcp://*:*", "tls://*:*"}}
	web := plugin.Request{Capability: "http", Allow: []string{"http://*:*/*", "https://*:*/*"}}
	const took = `waiting for [0-9.]+m?s; `
	t.Run("dial", func(t *testing.T) {
		t.Parallel()
		p := loadAs(t, h, "dialurl", asking("dialurl", everything), grants(t, "tcp://*:*", "tls://*:*")...)
		b := bind(t, p, `{"url":"tcp://192.0.2.1:80"}`, probe.Target{})
		hang(t, b, probe.Target{}, `^dial tcp://192.0.2.1:80: `+took+`no answer to the SYN from 192.0.2.1:80$`)
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		p := loadAs(t, h, "http", asking("http", web), grants(t, "http://*:*/*")...)
		b := bind(t, p, `{"req":{"url":"http://192.0.2.1/x"}}`, probe.Target{})
		hang(t, b, probe.Target{}, `^http GET http://192.0.2.1/x: `+took+`no answer to the SYN from 192.0.2.1:80$`)
	})
	target := blackHole(t) // accepts connections and sends nothing
	t.Run("tls", func(t *testing.T) {
		t.Parallel()
		p := loadAs(t, host, "dialurl", asking("dialurl", everything), grants(t, "tcp://*:*", "tls://*:*")...)
		b := bind(t, p, `{"url":"tls://"}`, target)
		hang(t, b, target, `^dial tls://127.0.0.1:\d+: `+took+`the TLS handshake with 127.0.0.1:\d+ is not finished; connected after .*; [1-9]\d+ bytes sent, 0 received$`)
	})
	t.Run("headers", func(t *testing.T) {
		t.Parallel()
		p := loadAs(t, host, "http", asking("http", web), grants(t, "http://*:*/*")...)
		b := bind(t, p, `{"req":{"url":"http:///x"}}`, target)
		hang(t, b, target, `^http GET http://127.0.0.1:\d+/x: `+took+`no response headers from 127.0.0.1:\d+; connected after .*; [1-9]\d+ bytes sent, 0 received$`)
	})
}

func TestTimeoutDetailsNameQuestion(t *testing.T) {
	t.Parallel()
	silent := nameserver(t, func(string, dnsmessage.Message) [][]byte { return nil })
	b := bind(t, resolver(t, "dns", silent), `{"req":{"name":"db.test"}}`, probe.Target{})
	hang(t, b, probe.Target{}, `^dns .*db.test.*: waiting for .*; no answer from 127.0.0.1:\d+`)
}
