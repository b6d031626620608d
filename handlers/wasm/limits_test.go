package wasm_test

import (
	"net"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// limited returns a manifest with limits.
func limited(l plugin.Limits) *plugin.Manifest {
	m := plugin.Minimal("limited")
	m.Limits = l
	return m
}

// wantHits compares the counters of limits of p with want.
func wantHits(t *testing.T, p *wasm.Handler, want map[plugin.LimitName]uint64) {
	t.Helper()
	if diff := cmp.Diff(want, p.Stats().Limits); diff != "" {
		t.Errorf("limits that were hit: (-want +got)\n%s", diff)
	}
}

func TestLimitsOfTheNetwork(t *testing.T) {
	_, target := web(t, (*httptest.Server).Start, "")
	p, err := host.Load(t.Context(), plugin.Found{Module: goModule(t), Manifest: limited(plugin.Limits{Handles: 2, Dials: 3, NetWrite: 1000, NetRead: 10})})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var traced []string
	req := probe.Request{Target: target, Debug: true, Trace: func(e probe.TraceEvent) {
		if strings.Contains(e.Detail, "limit") {
			traced = append(traced, e.Name+": "+e.Detail)
		}
	}}
	for _, c := range []struct{ config, want string }{
		{`{"do":"handles","hold":true}`, ": more than 2 open handles"},
		{`{"do":"handles"}`, ": more than 3 dials a second"},
		{`{"do":"write"}`, ": more than 1000 bytes written in one run"},
		{`{"do":"get"}`, `malformed HTTP status code "2"`}, // ten bytes: "HTTP/1.1 2",
	} {
		got, err := attempt(t, bind(t, p, c.config, target), req, 10*time.Second)
		text := got.Output
		if err != nil {
			text = err.Error()
		}
		if !strings.HasSuffix(text, c.want) {
			t.Errorf("%s: got %q, want %q", c.config, text, c.want)
		}
	}
	wantHits(t, p, map[plugin.LimitName]uint64{"handles": 1, "dials": 1, "netWrite": 1, "netRead": 1})
	want := []string{
		"host: the limit handles is used up", "host: the limit dials is used up", "host: the limit netWrite is used up", "host: the limit netRead is used up",
	}
	if diff := cmp.Diff(want, traced); diff != "" {
		t.Errorf("traced: (-want +got)\n%s", diff)
	}
}

func TestLimitsOfHTTP(t *testing.T) {
	s, target := web(t, (*httptest.Server).Start, "")
	ask := func(t *testing.T, l plugin.Limits, req map[string]any, body bool, want string, hit plugin.LimitName) {
		t.Helper()
		p := loadAs(t, host, "http", limited(l))
		got, err := attempt(t, bind(t, p, request(t, req, body), target), probe.Request{Target: target}, 5*time.Second)
		if err != nil || !strings.Contains(got.Output, want) {
			t.Errorf("got %+v, %v, want %q", got, err, want)
		}
		wantHits(t, p, map[plugin.LimitName]uint64{hit: 1})
	}
	t.Run("body", func(t *testing.T) {
		ask(t, plugin.Limits{HTTPBody: 4}, map[string]any{"url": s.URL}, true, "more than 4 bytes read in one run", "httpBody")
	})
	t.Run("redirects", func(t *testing.T) {
		ask(t, plugin.Limits{Redirects: 1}, map[string]any{"url": s.URL + "/again/5", "redirects": 3}, false, `"status":302`, "redirects")
	})
	t.Run("sent bytes", func(t *testing.T) {
		ask(t, plugin.Limits{NetWrite: 4}, map[string]any{"url": s.URL, "method": "POST"}, false, "with a body of 6", "netWrite")
	})
}

// TestLimitsOfOutput also checks that each limit counts once per call.
func TestLimitsOfOutput(t *testing.T) {
	p := loadAs(t, host, "flood", limited(plugin.Limits{Message: 100, LogLines: 2, Stdio: 5000, Series: 3}))
	lines := 0
	flood := func(p *wasm.Handler, limits ...plugin.LimitName) {
		t.Helper()
		var words []string
		for _, name := range limits {
			words = append(words, "the limit "+string(name)+" is used up")
		}
		due := newDue(t)
		req := probe.Request{Debug: true, Trace: due.passWhenTraced(func(e probe.TraceEvent) {
			if e.Type == probe.TraceLog && e.Name != "host" {
				lines++
			}
		}, words...)}
		if got, err := p.Probe(due, req); err != nil || got.Reason != probe.ReasonDeadline {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	for range 2 {
		flood(p, "message", "logLines", "stdio", "series")
	}
	if lines != 4 {
		t.Errorf("%d lines in two runs, want 2 in each", lines)
	}
	wantHits(t, p, map[plugin.LimitName]uint64{"message": 2, "logLines": 2, "stdio": 2, "series": 2})
	bytes := loadAs(t, host, "flood", limited(plugin.Limits{LogBytes: 1000}))
	flood(bytes, "logBytes")
	if hits := bytes.Stats().Limits; hits["logBytes"] != 1 || hits["logLines"] != 0 {
		t.Errorf("limits that were hit: %v", hits)
	}
}

const bigResult = `(module
  (import "prober_v1" "result_write" (func $result (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "probe") (result i32) i32.const 0 i32.const 200 call $result drop i32.const 0))`

const manyMetrics = `(module
  (import "prober_v1" "result_write" (func $result (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "{\22message\22:\22four and more\22,\22metrics\22:[{\22name\22:\22a\22,\22value\22:1},{\22name\22:\22b\22,\22value\22:2}]}")
  (func (export "probe") (result i32) i32.const 0 i32.const 85 call $result drop i32.const 0))`

func TestLimitsOfResults(t *testing.T) {
	big, err := host.Load(t.Context(), plugin.Found{Module: assemble(t, bigResult), Manifest: limited(plugin.Limits{Result: 199})})
	if err != nil {
		t.Fatal(err)
	}
	defer big.Close()
	if got, err := attempt(t, big, probe.Request{}, 5*time.Second); probe.ReasonOf(err) != probe.ReasonProtocol {
		t.Errorf("got %+v, %v", got, err)
	}
	wantHits(t, big, map[plugin.LimitName]uint64{"result": 1})
	many, err := host.Load(t.Context(), plugin.Found{Module: assemble(t, manyMetrics), Manifest: limited(plugin.Limits{Series: 1, Message: 4})})
	if err != nil {
		t.Fatal(err)
	}
	defer many.Close()
	want := probe.Outcome{Result: probe.Success, Output: "four", Metrics: []probe.Metric{{Name: "a", Value: 1}}}
	got, err := attempt(t, many, probe.Request{}, 5*time.Second)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, (-want +got)\n%s", err, diff)
	}
	wantHits(t, many, map[plugin.LimitName]uint64{"series": 1, "message": 1})
}

func TestEmptyDatagramsCount(t *testing.T) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.LocalAddr().(*net.UDPAddr)
	p, err := host.Load(t.Context(), plugin.Found{Module: assemble(t, `(module
  (import "prober_v1_net" "dial" (func $dial (param i32 i32 i32) (result i32)))
  (import "prober_v1_net" "write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "udp://")
  (func (export "probe") (result i32) (local i32)
    i32.const 0 i32.const 6 i32.const -1 call $dial drop
    loop
      i32.const 1 i32.const 0 i32.const 0 i32.const -1 call $write
      if local.get 0 i32.const 3 i32.ne return end
      local.get 0 i32.const 1 i32.add local.tee 0
      i32.const 4 i32.ne
      br_if 0
    end
    i32.const 2))`), Manifest: limited(plugin.Limits{NetWrite: 3})})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	req := probe.Request{Target: probe.Target{Host: addr.IP.String(), Port: addr.Port}}
	if got, err := attempt(t, p, req, 5*time.Second); err != nil || got.Result != probe.Success {
		t.Errorf("got %+v, %v, want three datagrams to be sent, and no fourth", got, err)
	}
	wantHits(t, p, map[plugin.LimitName]uint64{"netWrite": 1})
}

func TestLimitsOfMemory(t *testing.T) {
	const mi = 1 << 20
	t.Run("one instance", func(t *testing.T) {
		p := loadAs(t, host, "oom", limited(plugin.Limits{Memory: 3*mi + 1}))
		if got := p.Limits().Memory; got != 3*mi {
			t.Errorf("%d bytes, want whole pages", got)
		}
		_, err := attempt(t, p, probe.Request{}, 5*time.Second)
		if probe.ReasonOf(err) != probe.ReasonMemory || err == nil || !strings.Contains(err.Error(), "more than 3145728 bytes") {
			t.Errorf("got %v", err)
		}
		wantHits(t, p, map[plugin.LimitName]uint64{"memory": 1})
	})
	t.Run("all instances", func(t *testing.T) {
		h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: interpreter, TotalMemory: 4 * mi})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		p := loadAs(t, h, "oom", limited(plugin.Limits{}))
		if _, err := attempt(t, p, probe.Request{}, 5*time.Second); probe.ReasonOf(err) != probe.ReasonMemory {
			t.Errorf("got %v", err)
		}
		wantHits(t, p, map[plugin.LimitName]uint64{"totalMemory": 1})
	})
}

func TestLimitsAtLoad(t *testing.T) {
	module := guestFile(t, "ok")
	for _, c := range []struct {
		limits plugin.Limits
		want   string
	}{
		{plugin.Limits{Module: len(module)}, ""},
		{plugin.Limits{Module: len(module) - 1}, "bytes; at most"},
		{plugin.Limits{Memory: 1000}, "the module begins with 65536 bytes of memory; at most 0 are allowed"},
	} {
		found := plugin.Found{Module: module, Manifest: plugin.Minimal("ok"), Limits: c.limits}
		p, err := host.Load(t.Context(), found)
		if err == nil {
			defer p.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.limits, err, c.want)
		}
	}
}

func TestLimitOfKV(t *testing.T) {
	m := asking("kv", plugin.Request{Capability: "kv"})
	m.Limits.KV = 6
	p := loadAs(t, host, "kv", m, grants(t, "kv")...)
	b := bind(t, p, `{"add":"x","code":0}`, probe.Target{})
	var last string
	for range 10 {
		got, err := attempt(t, b, probe.Request{}, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		last = got.Output
	}
	if last != "xxxxx" { // five bytes, and a key of one byte
		t.Errorf("got %q", last)
	}
	wantHits(t, p, map[plugin.LimitName]uint64{"kv": 5})
}

func TestLimitsDefault(t *testing.T) {
	p := loadAs(t, host, "ok", plugin.Minimal("ok"))
	if diff := cmp.Diff(plugin.Resolve(plugin.Limits{}, plugin.Limits{}), p.Limits()); diff != "" {
		t.Errorf("(-default +got)\n%s", diff)
	}
	if len(p.Stats().Limits) != 0 {
		t.Errorf("limits that were hit: %v", p.Stats().Limits)
	}
}
