package wasm_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// deadlineSlack is how late an attempt may end on a loaded machine. BenchmarkDeadline measures the delay
// on an idle one.
const deadlineSlack = patience

// load loads a file of testdata with an isolation.
func load(t testing.TB, h *wasm.Host, name string, isolation plugin.Isolation) *wasm.Handler {
	t.Helper()
	m := plugin.Minimal(name)
	m.Isolation = isolation
	p, err := h.Load(t.Context(), plugin.Found{Module: guestFile(t, name), Manifest: m})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// blackHole listens and never answers.
func blackHole(t testing.TB) probe.Target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return targetOf(l)
}

func targetOf(l net.Listener) probe.Target {
	addr := l.Addr().(*net.TCPAddr)
	return probe.Target{Host: addr.IP.String(), Port: addr.Port}
}

func TestHostileGuestsEndAtDeadline(t *testing.T) {
	const timeout = 50 * time.Millisecond
	target := blackHole(t)
	ways := map[string]struct {
		host      *wasm.Host
		isolation plugin.Isolation
	}{
		"reset": {host, plugin.Reset}, "fresh": {host, plugin.Fresh}, "checks": {checkedHost(t), plugin.Reset},
	}
	for _, name := range []string{"spin", "sleep", "poll", "flood", "spam", "hang", "handles"} {
		for way, in := range ways {
			t.Run(name+"/"+way, func(t *testing.T) {
				p := load(t, in.host, name, in.isolation)
				for range 2 { // the second time in a new instance
					start := time.Now()
					got, err := overrun(t, p, probe.Request{Target: target}, timeout)
					took := time.Since(start)
					if want := probe.TimedOut(timeout); err != nil || got.Result != want.Result || got.Output != want.Output || got.Reason != want.Reason {
						t.Errorf("got %+v, %v, want %+v", got, err, want)
					}
					if took < timeout || took > timeout+deadlineSlack {
						t.Errorf("ended after %v", took)
					}
				}
			})
		}
	}
}

func TestGuestFaultsAreErrors(t *testing.T) {
	for name, want := range map[string]struct {
		reason probe.Reason
		text   string
	}{
		"trap":      {probe.ReasonTrap, "unreachable"},
		"recurse":   {probe.ReasonTrap, "stack overflow"},
		"oom":       {probe.ReasonMemory, "needs more than 33554432 bytes of memory"},
		"code":      {probe.ReasonProtocol, "returned 42"},
		"badresult": {probe.ReasonProtocol, "result: byte 0 of JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			p := load(t, host, name, plugin.Reset)
			for range 2 {
				_, err := attempt(t, p, probe.Request{}, 5*time.Second)
				if err == nil || probe.ReasonOf(err) != want.reason || !strings.Contains(err.Error(), want.text) {
					t.Errorf("got %v (reason %s), want %q with reason %s", err, probe.ReasonOf(err), want.text, want.reason)
				}
			}
		})
	}
}

func TestGoGuestFaults(t *testing.T) {
	for config, want := range map[string]struct {
		reason probe.Reason
		text   string
	}{
		`{"do":"panic"}`:           {probe.ReasonTrap, "panic: out of order"},
		`{"do":"exit"}`:            {probe.ReasonTrap, "exited with code 0"},
		`{"do":"exit","code":700}`: {probe.ReasonTrap, "exited with code 700"},
		`{"do":"allocate"}`:        {probe.ReasonMemory, "out of memory"},
	} {
		t.Run(config, func(t *testing.T) {
			_, err := attempt(t, bind(t, goGuest(t), config, probe.Target{}), probe.Request{}, 2*time.Minute)
			if err == nil || probe.ReasonOf(err) != want.reason || !strings.Contains(err.Error(), want.text) {
				t.Errorf("got %v (reason %s), want %q with reason %s", err, probe.ReasonOf(err), want.text, want.reason)
			}
		})
	}
	got, err := attempt(t, goGuest(t), probe.Request{}, 5*time.Second)
	if err != nil || got.Result != probe.Success {
		t.Errorf("afterwards: got %+v, %v, want a success", got, err)
	}
}

func TestTableIsClamped(t *testing.T) {
	p := load(t, host, "table", plugin.Reset)
	for range 3 {
		got, err := attempt(t, p, probe.Request{}, 5*time.Second)
		if err != nil || got.Result != probe.Success {
			t.Errorf("got %+v, %v, want a table of 65,536 entries at most", got, err)
		}
	}
}

func TestWrongABI(t *testing.T) {
	_, err := host.Load(t.Context(), plugin.Found{Module: guestFile(t, "wrongabi"), Manifest: plugin.Minimal("wrongabi")})
	if err == nil || probe.ReasonOf(err) != probe.ReasonInstantiate || !strings.Contains(err.Error(), `plugin "wrongabi": unknown import module "prober_v9"`) {
		t.Errorf("got %v", err)
	}
}

func TestInitializeIsBounded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := host.Load(ctx, plugin.Found{Module: guestFile(t, "initspin"), Manifest: plugin.Minimal("initspin")})
	if err == nil || time.Since(start) > 100*time.Millisecond+deadlineSlack {
		t.Errorf("got %v after %v", err, time.Since(start))
	}
}

// randHook is a source of randomness that calls a function at each Read.
type randHook func()

func (r randHook) Read(p []byte) (int, error) {
	r()
	return len(p), nil
}

func TestInitializeIsNamed(t *testing.T) {
	ctx, enough := context.WithCancelCause(t.Context())
	h, err := wasm.New(wasm.Config{
		CacheDir: testCache(scratch), Interpreter: interpreter, Rand: randHook(func() { enough(errors.New("had enough")) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	_, err = h.Load(ctx, plugin.Found{Module: assemble(t, `(module
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_initialize") i32.const 0 i32.const 1 call $random drop loop br 0 end)
  (func (export "probe") (result i32) i32.const 0))`), Manifest: plugin.Minimal("bad")})
	if want := `plugin "bad": _initialize: had enough`; err == nil || err.Error() != want || probe.ReasonOf(err) != probe.ReasonInstantiate {
		t.Errorf("got %v, want %s", err, want)
	}
	for name, body := range map[string]string{
		"wasm error: unreachable": "unreachable",
		"exited with code 3":      "i32.const 3 call $exit",
	} {
		_, err := host.Load(t.Context(), plugin.Found{Module: assemble(t, `(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (func (export "_initialize") `+body+`)
  (func (export "probe") (result i32) i32.const 0))`), Manifest: plugin.Minimal("bad")})
		if want := `plugin "bad": _initialize: ` + name; err == nil || err.Error() != want || probe.ReasonOf(err) != probe.ReasonInstantiate {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestHostileGuestReachesLimits(t *testing.T) {
	for name, limit := range map[string]plugin.LimitName{"handles": "handles", "spam": "logLines", "flood": "logBytes"} {
		t.Run(name, func(t *testing.T) {
			p := load(t, host, name, plugin.Reset)
			lines, due := 0, newDue(t)
			req := probe.Request{Target: blackHole(t), Debug: true, Trace: due.passWhenTraced(func(probe.TraceEvent) { lines++ }, "the limit "+string(limit)+" is used up")}
			if _, err := p.Probe(due, req); err != nil {
				t.Fatal(err)
			}
			if stats := p.Stats(); stats.Limits[limit] != 1 {
				t.Errorf("got %+v, want the limit %s to be hit", stats, limit)
			}
			if lines > 600 {
				t.Errorf("%d events were traced", lines)
			}
		})
	}
}

// TestHostileGuestsDoNotBlockOthers runs native probes together with hostile guests and the garbage
// collector. Without its deadline, a looping guest would stop the process.
func TestHostileGuestsDoNotBlockOthers(t *testing.T) {
	const (
		natives = 1000
		period  = 50 * time.Millisecond
		rounds  = 10
	)
	ctx, cancel := context.WithCancel(t.Context())
	var guests sync.WaitGroup
	target := blackHole(t)
	for _, name := range []string{"spin", "sleep", "flood", "spam", "handles", "hang", "recurse", "oom", "table", "trap"} {
		p := load(t, host, name, plugin.Reset)
		guests.Go(func() {
			for ctx.Err() == nil {
				_, _ = attempt(t, p, probe.Request{Target: target}, period)
			}
		})
	}
	lags := nativeLags(natives, rounds, period)
	cancel()
	guests.Wait()
	t.Logf("lag: median %v, p99 %v, max %v", lags[len(lags)/2], lags[len(lags)*99/100], lags[len(lags)-1])
	// If a looping guest delayed others, it would do so for its whole timeout, repeatedly. Under the
	// race detector the machine is too slow for this check.
	if median := lags[len(lags)/2]; median > patience && !interpreter {
		t.Errorf("half of the probes were later than %v", median)
	}
}

// nativeLags returns how late n goroutines wake that sleep for a period, sorted.
func nativeLags(n, rounds int, period time.Duration) []time.Duration {
	lags := make(chan time.Duration, n*rounds)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range n {
		due := start.Add(period + time.Duration(i)*period/time.Duration(n))
		wg.Go(func() {
			for range rounds {
				<-time.After(time.Until(due))
				lags <- time.Since(due)
				due = due.Add(period)
			}
		})
	}
	for range rounds {
		runtime.GC()
	}
	wg.Wait()
	close(lags)
	all := make([]time.Duration, 0, n*rounds)
	for lag := range lags {
		all = append(all, lag)
	}
	slices.Sort(all)
	return all
}

// BenchmarkBesideHostileGuests reports how late 1,000 native probes with a period of 50 ms begin, while
// a hostile guest and the garbage collector run.
func BenchmarkBesideHostileGuests(b *testing.B) {
	const timeout = 50 * time.Millisecond
	target := blackHole(b)
	for _, name := range []string{"none", "spin", "sleep", "flood", "spam", "handles", "hang", "recurse", "oom", "table", "trap"} {
		b.Run("guest="+name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			var guests sync.WaitGroup
			if name != "none" {
				p := load(b, host, name, plugin.Reset)
				guests.Go(func() {
					for ctx.Err() == nil {
						_, _ = attempt(b, p, probe.Request{Target: target}, timeout)
					}
				})
			}
			var lags []time.Duration
			for b.Loop() {
				lags = nativeLags(1000, 10, timeout)
			}
			cancel()
			guests.Wait()
			b.ReportMetric(float64(lags[len(lags)/2].Microseconds())/1000, "p50-lag-ms")
			b.ReportMetric(float64(lags[len(lags)*99/100].Microseconds())/1000, "p99-lag-ms")
		})
	}
}
