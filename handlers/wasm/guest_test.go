package wasm_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

func TestGoGuestVerdicts(t *testing.T) {
	for config, want := range map[string]probe.Outcome{
		`{}`:               {Result: probe.Success, Output: "ok"},
		`{"do":"warning"}`: {Result: probe.Warning, Output: "so so"},
		`{"do":"failure"}`: {Result: probe.Failure, Output: "no"},
		`{"do":"unknown"}`: {Result: probe.Unknown, Output: "who knows"},
	} {
		t.Run(config, func(t *testing.T) {
			got, err := attempt(t, bind(t, goGuest(t), config, probe.Target{}), probe.Request{}, 5*time.Second)
			if err != nil || got.Result != want.Result || got.Output != want.Output {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

func TestGoGuestError(t *testing.T) {
	_, err := attempt(t, bind(t, goGuest(t), `{"do":"error"}`, probe.Target{}), probe.Request{}, 5*time.Second)
	if probe.ReasonOf(err) != probe.ReasonGuest || !strings.Contains(err.Error(), "cannot tell") {
		t.Errorf("got %v, want the guest's error", err)
	}
}

func TestGoGuestSeesTheRequest(t *testing.T) {
	req := probe.Request{
		Kind:        probe.Readiness,
		Attempt:     2,
		Spec:        probe.Spec{Period: 3 * time.Second, FailureThreshold: 4},
		LastResult:  probe.Warning,
		Target:      probe.Target{Host: "10.0.0.7", Port: 6379},
		Pod:         &probe.Pod{Namespace: "prod", Name: "redis-0", Labels: map[string]string{"app": "re\"dis"}},
		Container:   &probe.Container{Name: "redis", Ports: []probe.Port{{Name: "tcp", Number: 6379}}},
		ContainerID: "containerd://1",
	}
	got, err := attempt(t, bind(t, goGuest(t), `{"do":"request","count":9}`, req.Target), req, 5*time.Second)
	want := `readiness 2 3s 5s 4 warning 10.0.0.7:6379 prod/redis-0 redis re"dis 9`
	if err != nil || got.Output != want {
		t.Errorf("got %q, %v, want %q", got.Output, err, want)
	}
}

func TestGoGuestMetrics(t *testing.T) {
	want := []probe.Metric{{Name: "lag_seconds", Value: 1.5, Unit: "s"}, {Name: "clients", Value: 3}}
	got, err := attempt(t, bind(t, goGuest(t), `{"do":"metrics"}`, probe.Target{}), probe.Request{}, 5*time.Second)
	if diff := cmp.Diff(want, got.Metrics); diff != "" || err != nil {
		t.Error(err, diff)
	}
	want[1].Labels = map[string]string{"role": "master"}
	got, err = attempt(t, bind(t, goGuest(t), `{"do":"metrics","label":"master"}`, probe.Target{}), probe.Request{}, 5*time.Second)
	if diff := cmp.Diff(want, got.Metrics); diff != "" || err != nil || got.Output != "measured" {
		t.Error(err, diff, got.Output)
	}
}

func TestGuestLogsAreTraced(t *testing.T) {
	var lines []string
	req := probe.Request{
		Container: &probe.Container{Name: "web"},
		Debug:     true, Trace: func(e probe.TraceEvent) {
			if e.Type == probe.TraceLog {
				lines = append(lines, e.Name+": "+e.Detail)
			}
		},
	}
	if _, err := attempt(t, bind(t, goGuest(t), `{"do":"log"}`, probe.Target{}), req, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	want := []string{"info: hello from web", "stdout: on stdout", "stderr: on stderr"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}

func TestLogFloodIsCut(t *testing.T) {
	p := load(t, host, "flood", plugin.Reset)
	lines, bytes := 0, 0
	due := newDue(t)
	req := probe.Request{Debug: true, Trace: due.passWhenTraced(func(e probe.TraceEvent) {
		if e.Type == probe.TraceLog && e.Name != "host" {
			lines++
			bytes += len(e.Detail)
		}
	}, "the limit logBytes is used up")}
	if _, err := p.Probe(due, req); err != nil {
		t.Fatal(err)
	}
	if lines == 0 || lines > 100 || bytes > 16<<10 {
		t.Errorf("%d lines of %d bytes in all, want 100 lines or 16 KiB at most", lines, bytes)
	}
}

func TestTraceFloodIsCut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if conn, err := l.Accept(); err == nil {
			conn.Close()
		}
	})
	defer wg.Wait()
	defer l.Close()
	p := load(t, host, "chatty", plugin.Reset)
	events := 0
	var last, end probe.TraceEvent
	due := newDue(t)
	req := probe.Request{Target: targetOf(l), Debug: true, Trace: due.passWhenTraced(func(e probe.TraceEvent) {
		if e.Name != "guest" || e.Type == probe.TraceWait { // the event with the guest's computing time
			events, last, end = events+1, end, e
		}
	}, "further events are dropped")}
	if _, err := p.Probe(due, req); err != nil {
		t.Fatal(err)
	}
	if end.Type != probe.TraceWait {
		t.Errorf("the last event is %+v", end)
	}
	if events != 502 || last.Detail != "further events are dropped" {
		t.Errorf("%d events, the last of them %+v; want 500 and a word", events, last)
	}
}

func TestResetRestoresState(t *testing.T) {
	b := bind(t, goGuest(t), `{"do":"state"}`, probe.Target{})
	for range 3 {
		got, err := attempt(t, b, probe.Request{}, 5*time.Second)
		if err != nil || got.Output != "1" {
			t.Errorf("got %q, %v, want each call to be the first", got.Output, err)
		}
	}
	for _, isolation := range []plugin.Isolation{plugin.Reset, plugin.Fresh} {
		for _, name := range []string{"counter", "global", "grow"} {
			p := load(t, host, name, isolation)
			for range 5 {
				if got, err := attempt(t, p, probe.Request{}, 5*time.Second); err != nil || got.Result != probe.Success {
					t.Errorf("%s, %s: got %+v, %v, want each call to be the first", name, isolation, got, err)
				}
			}
		}
	}
}

func TestGuestValidatesItsConfig(t *testing.T) {
	_, err := goGuest(t).Prepare([]byte(`{"reject":"too bad"}`), probe.Target{})
	if err == nil || err.Error() != "config: reject: too bad" {
		t.Errorf("got %v", err)
	}
}

func TestConfigIsValidatedAgainstSchema(t *testing.T) {
	manifest, err := plugin.ParseManifest("plugin.yaml", []byte(`
apiVersion: prober.dev/v1
name: schema
version: 1.0.0
config:
  schema:
    type: object
    additionalProperties: false
    properties:
      do: {type: string, default: request}
      count: {type: integer, default: 42}
`))
	if err != nil {
		t.Fatal(err)
	}
	p, err := host.Load(t.Context(), plugin.Found{Module: goModule(t), Manifest: manifest})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Prepare([]byte(`{"count":"many"}`), probe.Target{}); err == nil || !strings.Contains(err.Error(), "config.count: ") {
		t.Errorf("got %v, want an error that names the field", err)
	}
	got, err := attempt(t, bind(t, p, `{}`, probe.Target{}), probe.Request{}, 5*time.Second)
	if err != nil || !strings.HasSuffix(got.Output, " 42") {
		t.Errorf("got %q, %v, want the schema's defaults", got.Output, err)
	}
}

func TestMinimalPlugin(t *testing.T) {
	module, err := buildGo(t.TempDir(), "../../sdk/testdata/minimal")
	if err != nil {
		t.Fatal(err)
	}
	p, err := host.Load(t.Context(), plugin.Found{Module: module, Manifest: plugin.Minimal("minimal")})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	l := serve(t, "tcp", "127.0.0.1:0")
	got, err := attempt(t, p, probe.Request{Target: targetOf(l)}, 5*time.Second)
	if want := "connected to " + l.Addr().String(); err != nil || got.Result != probe.Success || got.Output != want {
		t.Errorf("got %+v, %v, want %q", got, err, want)
	}
}

func TestHandlerSuite(t *testing.T) {
	echo := targetOf(serve(t, "tcp", "127.0.0.1:0"))
	hole := blackHole(t)
	fixed := func(h probe.Handler, target probe.Target) probe.Handler {
		return probe.HandlerFunc(func(ctx context.Context, req probe.Request) (probe.Outcome, error) {
			req.Target = target
			return h.Probe(ctx, req)
		})
	}
	probetest.HandlerSuite(t, func(t *testing.T) probetest.HandlerUnderTest {
		return probetest.HandlerUnderTest{
			Good:     fixed(bind(t, goGuest(t), `{"do":"echo"}`, echo), echo),
			Hanging:  fixed(bind(t, goGuest(t), `{"do":"echo"}`, hole), hole),
			Flooding: bind(t, goGuest(t), `{"do":"long"}`, probe.Target{}),
			Erring:   bind(t, goGuest(t), `{"do":"error"}`, probe.Target{}),
		}
	})
}

func TestRegisterAll(t *testing.T) {
	found := []plugin.Found{
		{Manifest: plugin.Minimal("ok"), Path: "ok.wasm", Module: guestFile(t, "ok")},
		{Manifest: plugin.Minimal("wrong"), Path: "wrong.wasm", Module: guestFile(t, "wrongabi")},
		{Manifest: plugin.Minimal("ok"), Path: "again.wasm", Module: guestFile(t, "ok")},
	}
	var reg handlers.Registry
	err := wasm.RegisterAll(t.Context(), &reg, host, found)
	defer reg.Close()
	for _, want := range []string{`plugin "wrong"`, "(wrong.wasm)", `handler "ok" of again.wasm: the name is taken by ok.wasm`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	h, err := reg.Prepare("ok", nil, probe.Target{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := attempt(t, h, probe.Request{}, 5*time.Second)
	if err != nil || got.Result != probe.Success || got.Output != "well" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestCacheDirMustBePrivate(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := wasm.New(wasm.Config{CacheDir: dir}); err == nil || !strings.Contains(err.Error(), "writable to others") {
		t.Errorf("got %v, want a refusal", err)
	}
	fresh := filepath.Join(t.TempDir(), "new")
	h, err := wasm.New(wasm.Config{CacheDir: fresh})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if info, err := os.Stat(fresh); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder that was made: %v, %v, want 0700", info.Mode(), err)
	}
}

func TestMemoryBudget(t *testing.T) {
	h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache"), TotalMemory: 3 << 16})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	target := blackHole(t)
	hang := load(t, h, "hang", plugin.Reset) // each takes a page, and the shared image takes one
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	started := make(chan struct{}, 2)
	for range 2 {
		wg.Go(func() {
			_, _ = hang.Probe(ctx, probe.Request{Target: target, Debug: true, Trace: first(func() { started <- struct{}{} })})
		})
		<-started
	}
	_, err = attempt(t, hang, probe.Request{Target: target}, 5*time.Second)
	if !errors.Is(err, wasm.ErrNoInstance) || !errors.Is(err, probe.ErrNoSlot) {
		t.Errorf("got %v, want ErrNoInstance while others use all of the memory", err)
	}
	cancel()
	wg.Wait()
	if got, err := overrun(t, hang, probe.Request{Target: target}, 50*time.Millisecond); err != nil || got.Reason != probe.ReasonDeadline {
		t.Errorf("afterwards: got %+v, %v, want an attempt that reaches its deadline", got, err)
	}
}

func TestLongNamesAreRefused(t *testing.T) {
	if got, err := attempt(t, load(t, host, "longkey", plugin.Reset), probe.Request{}, 5*time.Second); err != nil || got.Result != probe.Success {
		t.Errorf("config_get: got %+v, %v", got, err)
	}
	long := fmt.Sprintf(`{"url": "tcp://127.0.0.1:1/%s"}`, strings.Repeat("x", 3000))
	got, err := attempt(t, bind(t, load(t, host, "dialurl", plugin.Reset), long, probe.Target{}), probe.Request{}, 5*time.Second)
	if err != nil || !strings.Contains(got.Output, "at most 2048 are allowed") {
		t.Errorf("dial: got %+v, %v", got, err)
	}
}

func TestIdleInstancesMakeRoom(t *testing.T) {
	h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache"), TotalMemory: 4 << 16})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for _, name := range []string{"ok", "counter", "ok"} {
		p := load(t, h, name, plugin.Reset)
		if got, err := attempt(t, p, probe.Request{}, 5*time.Second); err != nil || got.Result != probe.Success {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

func TestLimitsOfOneCall(t *testing.T) {
	target := targetOf(serve(t, "tcp", "127.0.0.1:0"))
	for config, want := range map[string]string{
		`{"do":"handles","hold":true}`: ": more than 8 open handles",
		`{"do":"handles"}`:             ": more than 8 dials a second",
		`{"do":"write"}`:               ": more than 262144 bytes written in one run",
	} {
		got, err := attempt(t, bind(t, goGuest(t), config, target), probe.Request{Target: target}, 10*time.Second)
		if err != nil || !strings.HasSuffix(got.Output, want) {
			t.Errorf("%s: got %q, %v, want %q", config, got.Output, err, want)
		}
	}
}

func TestReadLimitOfOneCall(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for err == nil {
			_, err = conn.Write(make([]byte, 64<<10))
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	target := targetOf(l)
	got, err := attempt(t, bind(t, goGuest(t), `{"do":"read"}`, target), probe.Request{Target: target}, 10*time.Second)
	if want := ": more than 1048576 bytes read in one run"; err != nil || !strings.HasPrefix(got.Output, "1048576: ") || !strings.HasSuffix(got.Output, want) {
		t.Errorf("got %q, %v, want %q", got.Output, err, want)
	}
}

func TestInterpreter(t *testing.T) {
	h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: true})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for _, name := range []string{"ok", "counter", "global", "grow", "table"} {
		p := load(t, h, name, plugin.Reset)
		for range 2 {
			if got, err := attempt(t, p, probe.Request{}, 5*time.Second); err != nil || got.Result != probe.Success {
				t.Errorf("%s: got %+v, %v", name, got, err)
			}
		}
	}
	spin := load(t, h, "spin", plugin.Reset)
	if got, err := overrun(t, spin, probe.Request{}, 50*time.Millisecond); err != nil || got.Reason != probe.ReasonDeadline {
		t.Errorf("spin: got %+v, %v", got, err)
	}
}

func TestCloseWaitsForAttempts(t *testing.T) {
	h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache")})
	if err != nil {
		t.Fatal(err)
	}
	target := blackHole(t)
	p, err := h.Load(t.Context(), plugin.Found{Module: guestFile(t, "hang"), Manifest: plugin.Minimal("hang")})
	if err != nil {
		t.Fatal(err)
	}
	due, started := newDue(t), make(chan struct{}, 1)
	var wg sync.WaitGroup
	var out probe.Outcome
	wg.Go(func() {
		out, err = p.Probe(due, probe.Request{Target: target, Debug: true, Trace: first(func() { started <- struct{}{} })})
	})
	<-started
	time.AfterFunc(500*time.Millisecond, due.pass) // while Close waits
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if err != nil || out.Reason != probe.ReasonDeadline {
		t.Errorf("got %+v, %v, want an attempt that was let finish", out, err)
	}
	if _, err := p.Probe(t.Context(), probe.Request{}); err == nil {
		t.Error("a closed plugin answered")
	}
}

func TestClosedStandardStreamsStayOpen(t *testing.T) {
	code := assemble(t, `(module
  (import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "probe") (result i32)
    i32.const 1
    call $close))`)
	p, err := host.Load(t.Context(), plugin.Found{Module: code, Manifest: plugin.Minimal("closer")})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range 3 {
		if got, err := attempt(t, p, probe.Request{}, 5*time.Second); err != nil || got.Result != probe.Success {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

func TestGuestTimeIsTraced(t *testing.T) {
	h := dialHost(t, nil)
	p, err := h.Load(t.Context(), plugin.Found{Module: assemble(t, `(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 3)
  (data (i32.const 0) "\10\00\00\00\2f\00\00\00")
  (data (i32.const 16) "about to do it\0apanic: index out of range\0aother\0a")
  (func (export "probe") (result i32) i32.const 2 i32.const 0 i32.const 1 i32.const 8 call $write drop unreachable))`), Manifest: plugin.Minimal("panics")})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var guest probe.TraceEvent
	_, err = attempt(t, bind(t, p, `{}`, probe.Target{}), probe.Request{Trace: func(e probe.TraceEvent) {
		if e.Type == probe.TraceCall && e.Name == "guest" {
			guest = e
		}
	}}, patience)
	if probe.ReasonOf(err) != probe.ReasonTrap || !strings.Contains(err.Error(), "unreachable: panic: index out of range") {
		t.Errorf("the error is %v", err)
	}
	if guest.Duration <= 0 || !strings.HasPrefix(guest.Detail, "computed; 192 KiB of memory") {
		t.Errorf("the guest is %+v", guest)
	}
}
