package process_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/handlers/quarantine"
	"github.com/daeace23/prober/handlers/replace"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/schema"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

func TestHandlerSuite(t *testing.T) {
	probetest.HandlerSuite(t, func(t *testing.T) probetest.HandlerUnderTest {
		h := load(t, process.Config{})
		return probetest.HandlerUnderTest{
			Good: bind(t, h, "ok"), Hanging: bind(t, h, "hang"), Flooding: bind(t, h, "long"), Erring: bind(t, h, "error"),
			Timeout: time.Second, // long enough for a request to reach the process
		}
	})
}

func TestResults(t *testing.T) {
	h := load(t, process.Config{})
	request := probe.Request{Attempt: 1, Target: probe.Target{Host: "10.0.0.7", Port: 80}, Pod: &probe.Pod{Name: "shop"}}
	for mode, want := range map[string]probe.Outcome{
		"ok": {
			Result: probe.Success, Output: "10.0.0.7:80 of shop",
			Metrics: []probe.Metric{{Name: "load", Value: 0.5, Labels: map[string]string{"core": "1"}}}, Details: `{"cores":2}`,
		},
		"verbose": {Output: "long"}, // too long details are dropped
		"warning": {Result: probe.Warning, Output: "nearly full"},
		"failure": {Result: probe.Failure, Output: "down"},
		"unknown": {Result: probe.Unknown, Output: "who knows"},
	} {
		got, err := attemptOf(t, bind(t, h, mode), request, patience)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: error %v, outcome (-want +got):\n%s", mode, err, diff)
		}
	}
	for mode, want := range map[string]string{"error": `plugin "tester": no idea`, "panic": `plugin "tester": panic: at the disco`} {
		if _, err := attempt(t, bind(t, h, mode), patience); err == nil || err.Error() != want || probe.ReasonOf(err) != probe.ReasonGuest {
			t.Errorf("%s: got %v, reason %s; want %s", mode, err, probe.ReasonOf(err), want)
		}
	}
	if s := h.Stats(); s.Starts != 1 || !s.Running || s.Busy != 0 {
		t.Errorf("got %+v, want one process, running and idle", s)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	config, err := schema.New([]byte(`{"properties": {"mode": {"type": "string", "default": "warning"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	h := load(t, process.Config{StartTimeout: 3 * time.Second}, func(m *plugin.Manifest) { m.Config = config })
	b, err := h.Prepare(nil, probe.Target{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := attempt(t, b, patience); err != nil || got.Result != probe.Warning {
		t.Errorf("the schema's default: got %v, %v; want a warning", got, err)
	}
	for config, want := range map[string]string{
		`{"mode": 1}`:      "config.mode: ",
		`{"mode": "bad"}`:  "config.mode: bad is bad",
		`{"mode": "slow"}`: "validate_config: the process does not say within 3s ",
	} {
		if _, err := h.Prepare([]byte(config), probe.Target{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", config, err, want)
		} else if isSlow := strings.Contains(config, "slow"); isSlow != errors.Is(err, context.DeadlineExceeded) { // tells the caller not to try other configs
			t.Errorf("%s: got %v", config, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.PrepareContext(gone, []byte(`{"mode": "slow"}`), probe.Target{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}

func TestEnvironmentIsEmpty(t *testing.T) {
	t.Setenv("PROBER_SECRET", "hunter2")
	h := load(t, process.Config{Env: []string{"LANG=C"}})
	got, err := attempt(t, bind(t, h, "env"), patience)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(got.Output) {
		if name, _, ok := strings.Cut(line, "="); ok && name == strings.ToUpper(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	want := []string{
		"LANG", "PLUGIN_CLIENT_CERT", "PLUGIN_MAX_PORT", "PLUGIN_MIN_PORT", "PLUGIN_PROTOCOL_VERSIONS", "PLUGIN_UNIX_SOCKET_DIR", "PROBER_PLUGIN", "PROBER_RUN_ID",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

// TestLoadWithLongTMPDIR has a TMPDIR that is longer than the path of a socket may be.
func TestLoadWithLongTMPDIR(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()+strings.Repeat("/.", 50))
	if got, err := attempt(t, bind(t, load(t, process.Config{}), "name"), patience); err != nil || got.Result != probe.Success {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestProcessNameShowsPlugin(t *testing.T) {
	if got, err := attempt(t, bind(t, load(t, process.Config{}), "name"), patience); err != nil || got.Output != "[prober-plugin-tester]" {
		t.Errorf("got %q, %v", got.Output, err)
	}
}

func TestStore(t *testing.T) {
	h := load(t, process.Config{}, func(m *plugin.Manifest) { m.Requests = []plugin.Request{{Capability: "kv"}} })
	b, other := bind(t, h, "count"), bind(t, h, "count")
	for _, want := range []string{"1", "2", "3"} {
		if got, err := attempt(t, b, patience); err != nil || got.Output != want {
			t.Errorf("got %q, %v; want %s", got.Output, err, want)
		}
	}
	if got, err := attempt(t, other, patience); err != nil || got.Output != "1" {
		t.Errorf("another probe: got %q, %v; want 1", got.Output, err)
	}
}

// TestStoreOutlivesVersion checks that a new version of a plugin takes over the store of a probe.
func TestStoreOutlivesVersion(t *testing.T) {
	keeps := func(m *plugin.Manifest) { m.Requests = []plugin.Request{{Capability: "kv"}} }
	s := replace.New(replace.Config{Name: "tester"})
	defer s.Close()
	var b probe.Handler
	for _, want := range []string{"1", "2", "3"} {
		h, err := process.Load(t.Context(), unhurried(process.Config{}), found(keeps))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Replace(t.Context(), quarantine.New(h, quarantine.Config{})); err != nil {
			t.Fatal(err)
		}
		if b == nil {
			b = bind(t, s, "count")
		}
		if got, err := attempt(t, b, patience); err != nil || got.Output != want {
			t.Errorf("got %q, %v; want %s", got.Output, err, want)
		}
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	h := load(t, process.Config{})
	var wg sync.WaitGroup
	for _, mode := range []string{"hang", "deaf"} {
		b := bind(t, h, mode)
		wg.Go(func() {
			got, err := attempt(t, b, time.Second)
			want := probe.Outcome{Result: probe.Failure, Reason: probe.ReasonDeadline, Output: "timed out after 1s"}
			got.Details = "" // see TestProcessHangIsExplained
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s: error %v, outcome (-want +got):\n%s", mode, err, diff)
			}
		})
	}
	wg.Wait()
	if got, err := attempt(t, bind(t, h, "ok"), patience); err != nil || got.Result != probe.Success {
		t.Errorf("another attempt afterwards: %v, %v", got, err)
	}
}

// first returns a tracer that calls do on the first event.
func first(do func()) probe.Tracer {
	once := sync.OnceFunc(do)
	return func(probe.TraceEvent) { once() }
}

func TestConcurrencyLimit(t *testing.T) {
	h := load(t, process.Config{}, func(m *plugin.Manifest) { m.Limits.Instances = 1 })
	hanging := bind(t, h, "hang")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	begun := make(chan struct{})
	wg.Go(func() {
		req := probe.Request{Attempt: 1, Debug: true, Trace: first(func() { close(begun) })}
		_, _ = hanging.Probe(ctx, req)
	})
	<-begun
	if _, err := attempt(t, bind(t, h, "ok"), patience); !errors.Is(err, probe.ErrNoSlot) {
		t.Errorf("got %v, want no slot", err)
	}
	cancel()
	wg.Wait()
	if got, err := attempt(t, bind(t, h, "ok"), patience); err != nil || got.Result != probe.Success {
		t.Errorf("afterwards: %v, %v", got, err)
	}
	if n := h.Stats().Limits["instances"]; n != 1 {
		t.Errorf("the limit was hit %d times, want 1", n)
	}
}

func TestOutputIsBounded(t *testing.T) {
	var log lockedBuffer
	h := load(t, process.Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	t.Run("flood", func(t *testing.T) {
		start := time.Now()
		if got, err := attempt(t, bind(t, h, "flood"), patience); err != nil || got.Result != probe.Success {
			t.Errorf("got %v, %v", got, err)
		}
		windows := 1 + int(time.Since(start)/(10*time.Second))
		if n := log.len(); n > windows*100<<10 || n == 0 {
			t.Errorf("the log got %d bytes", n)
		}
	})
	t.Run("message", func(t *testing.T) {
		got, err := attempt(t, bind(t, h, "long"), patience)
		if err != nil || len(got.Output) > probe.MaxOutput || got.Result != probe.Success {
			t.Errorf("got %d bytes, %v", len(got.Output), err)
		}
	})
	t.Run("log", func(t *testing.T) {
		var lines []string
		req := probe.Request{Attempt: 1, Debug: true, Trace: func(e probe.TraceEvent) {
			if e.Type == probe.TraceLog {
				lines = append(lines, e.Name+" "+e.Detail)
			}
		}}
		if got, err := attemptOf(t, bind(t, h, "log"), req, patience); err != nil || got.Result != probe.Success {
			t.Errorf("got %v, %v", got, err)
		}
		if len(lines) != 100 || lines[0] != "warn line 0" || lines[99] != "warn line 99" {
			t.Errorf("got %d lines: %.200q", len(lines), lines)
		}
		if n := h.Stats().Limits["logLines"]; n != 1 {
			t.Errorf("the limit was hit %d times, want 1", n)
		}
	})
}

func TestAttemptSecretsNotLogged(t *testing.T) {
	var log lockedBuffer
	h := load(t, process.Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	req := probe.Request{Attempt: 1, Redact: func(text string) string { return strings.ReplaceAll(text, "line", "****") }}
	if _, err := attemptOf(t, bind(t, h, "log"), req, patience); err != nil {
		t.Fatal(err)
	}
	if text := log.text(); strings.Contains(text, "line 1") || !strings.Contains(text, "**** 1") {
		t.Errorf("the log: %.300s", text)
	}
}

func TestStartFails(t *testing.T) {
	const before = `plugin "tester": the process must print nothing before the handshake of go-plugin, and its standard output begins with `
	for mode, want := range map[string]string{
		"crash":     `plugin "tester": the process ended when it started: exit status 7: no licence found`,
		"gibberish": before + `"gibberishgibberishgibberishgibberishgibberishgibberishgibberishgibberishgibberis..."`,
		"polluted":  before + `"debug: connecting": write it to standard error`,
		"prefixed":  before + `"loading... 1|1|unix|`,
		"blank":     before + `""`,
		"other":     `plugin "tester": the process is tester 2.0.0, its manifest that of tester 1.0.0`,
		"hang":      `plugin "tester": the process does not serve within the start timeout`,
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			cfg := unhurried(process.Config{Env: []string{"START=" + mode}})
			if mode == "hang" {
				cfg.StartTimeout = time.Second
			}
			h, err := process.Load(t.Context(), cfg, found())
			if err == nil || !strings.HasPrefix(err.Error(), want) || probe.ReasonOf(err) != probe.ReasonInstantiate {
				t.Errorf("got %v, %v; want %s", h, err, want)
			}
		})
	}
}

// panicking is a logger that panics.
type panicking struct{ slog.Handler }

func (panicking) Handle(context.Context, slog.Record) error { panic("a villain") }

// TestLoggerPanics checks that a panicking logger loses lines, but ends neither the program nor a process.
func TestLoggerPanics(t *testing.T) {
	log := slog.New(panicking{slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug})})
	if h, err := process.Load(t.Context(), unhurried(process.Config{Logger: log, Env: []string{"START=crash"}}), found()); err == nil {
		t.Errorf("got %v, want an error", h)
	}
	h := load(t, process.Config{Logger: log, Pause: time.Nanosecond, MaxPause: time.Nanosecond})
	if got, err := attempt(t, bind(t, h, "die"), patience); err == nil {
		t.Errorf("got %v, want an error", got)
	}
	for ok := bind(t, h, "ok"); ; { // an attempt may still reach a process that is ending
		if _, err := attempt(t, ok, patience); err == nil {
			break
		} else if probe.ReasonOf(err) != probe.ReasonTrap && !errors.Is(err, probe.ErrNoSlot) {
			t.Fatalf("afterwards: %v", err)
		}
	}
}

func TestErrorPolicy(t *testing.T) {
	h := load(t, process.Config{}, func(m *plugin.Manifest) { m.ErrorPolicy = plugin.PolicyFailure })
	die := bind(t, h, "die")
	if got, err := attempt(t, die, patience); err == nil {
		t.Errorf("the first attempt: got %v, want an error", got)
	}
	got, err := attemptOf(t, die, probe.Request{Attempt: probe.MaxAttempts}, patience)
	if err != nil || got.Result != probe.Failure || got.Reason != probe.ReasonTrap || !strings.Contains(got.Output, "panic: in a goroutine") {
		t.Errorf("the last attempt: got %+v, %v; want a failure", got, err)
	}
}

func TestWrongDigest(t *testing.T) {
	f := found()
	f.Module = append(slices.Clone(f.Module), 0)
	if _, err := process.Load(t.Context(), unhurried(process.Config{}), f); err == nil || !strings.Contains(err.Error(), "digest of the executable is sha256:") {
		t.Errorf("got %v", err)
	}
}

func TestLoadRunsModuleAndNotFile(t *testing.T) {
	f := found()
	f.Path = t.TempDir() + "/prober-plugin-tester"
	if err := os.WriteFile(f.Path, []byte("#!/bin/sh\nexit 66\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	h, err := process.Load(t.Context(), unhurried(process.Config{}), f)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if got, err := attempt(t, bind(t, h, "ok"), patience); err != nil || got.Result != probe.Success {
		t.Errorf("got %v, %v; want that the module runs", got, err)
	}
}

// lockedBuffer is a log that may be read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *lockedBuffer) len() int { return len(b.text()) }
