package wasm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// dueContext is a context that ends when the test calls pass. Its deadline is an hour away.
type dueContext struct {
	context.Context
	deadline time.Time
	over     chan struct{}
	once     sync.Once
}

func newDue(t testing.TB) *dueContext {
	return &dueContext{Context: t.Context(), deadline: time.Now().Add(time.Hour), over: make(chan struct{})}
}

// passWhenTraced returns a tracer that ends the context soon after all words were traced, or after
// patience.
func (c *dueContext) passWhenTraced(also func(probe.TraceEvent), words ...string) probe.Tracer {
	time.AfterFunc(patience, c.pass)
	missing := make(map[string]bool)
	for _, w := range words {
		missing[w] = true
	}
	return func(e probe.TraceEvent) {
		if also(e); missing[e.Detail] {
			if delete(missing, e.Detail); len(missing) == 0 {
				time.AfterFunc(100*time.Millisecond, c.pass)
			}
		}
	}
}

func (c *dueContext) pass()                       { c.once.Do(func() { close(c.over) }) }
func (c *dueContext) Deadline() (time.Time, bool) { return c.deadline, true }
func (c *dueContext) Done() <-chan struct{}       { return c.over }

func (c *dueContext) Err() error {
	select {
	case <-c.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// wall is a connection whose Write blocks until it is closed.
type wall struct {
	net.Conn
	hit func()
}

func (w *wall) Write([]byte) (int, error) {
	w.hit()
	_, _ = io.Copy(io.Discard, w.Conn) // until it is closed
	return 0, net.ErrClosed
}

// dialHost returns a host that dials with dial.
func dialHost(t testing.TB, dial func(ctx context.Context) (net.Conn, error)) *wasm.Host {
	t.Helper()
	h, err := wasm.New(wasm.Config{
		CacheDir: testCache(scratch), Interpreter: interpreter,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func lateManifest(isolation plugin.Isolation) *plugin.Manifest {
	m := plugin.Minimal("late")
	m.Isolation, m.Stateful = isolation, isolation == plugin.Pooled
	m.Requests = []plugin.Request{{Capability: "kv"}, {Capability: "dns"}}
	return m
}

func loadLate(t testing.TB, h *wasm.Host, isolation plugin.Isolation) *wasm.Handler {
	t.Helper()
	return loadAs(t, h, "late", lateManifest(isolation), grants(t, "kv", "dns")...)
}

var elsewhere = probe.Target{Host: "10.0.0.7", Port: 80}

// wantTimedOut checks that an attempt timed out.
func wantTimedOut(t *testing.T, got probe.Outcome, err error, timeout time.Duration) {
	t.Helper()
	if want := probe.TimedOut(timeout); err != nil || got.Result != want.Result || got.Output != want.Output || got.Reason != want.Reason || got.Metrics != nil {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// TestDeadlineUnwindsWaitingGuest checks that a guest that waits in a host call at its deadline is unwound
// before it does anything else. With isolation reset, its instance is reused.
func TestDeadlineUnwindsWaitingGuest(t *testing.T) {
	over := false // a later read would be a data race
	trace := func(e probe.TraceEvent) {
		if over {
			t.Errorf("traced after the answer: %+v", e)
		}
	}
	for _, tc := range []struct {
		name      string
		isolation plugin.Isolation
		trace     probe.Tracer
		idle      int
	}{
		{"reset keeps the instance", plugin.Reset, nil, 1},
		{"reset with a tracer keeps the instance", plugin.Reset, trace, 1},
		{"fresh drops the instance", plugin.Fresh, nil, 0},
		{"pooled drops the instance", plugin.Pooled, nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for then := range 8 {
				due := newDue(t)
				h := dialHost(t, func(ctx context.Context) (net.Conn, error) {
					due.pass()
					<-ctx.Done()
					return nil, ctx.Err()
				})
				p := loadLate(t, h, tc.isolation)
				guest := bind(t, p, fmt.Sprintf(`{"then":"%d"}`, then), elsewhere)
				over = false
				got, err := guest.Probe(due, probe.Request{Target: elsewhere, Spec: probe.Spec{Timeout: time.Minute}, Debug: true, Trace: tc.trace})
				over = true
				wantTimedOut(t, got, err, time.Minute)
				if got := p.Stats(); got.Idle != tc.idle || got.Busy != 0 {
					t.Errorf("then %d: got %+v, want %d idle", then, got, tc.idle)
				}
				if kept := guest.(wasm.Keeper).Kept(); len(kept) > 0 {
					t.Errorf("then %d: kept %q", then, kept)
				}
			}
		})
	}
}

// TestDeadlineEndsTraffic checks that the target sees one connection and no bytes.
func TestDeadlineEndsTraffic(t *testing.T) {
	t.Parallel()
	const timeout = 250 * time.Millisecond
	for then := range 8 {
		conns, bytes, target := countingServer(t)
		p := loadLate(t, host, plugin.Reset)
		attempts := int64(0)
		counted := probe.HandlerFunc(func(ctx context.Context, req probe.Request) (probe.Outcome, error) {
			attempts++
			return bind(t, p, fmt.Sprintf(`{"then":"%d"}`, then), target).Probe(ctx, req)
		})
		got, err := overrun(t, counted, probe.Request{Target: target}, timeout)
		wantTimedOut(t, got, err, timeout)
		if got := p.Stats(); got.Busy != 0 {
			t.Errorf("got %+v, want no instance to be busy", got)
		}
		if c, b := conns(), bytes(); c > attempts || b > 0 {
			t.Errorf("then %d: the target saw %d connections and %d bytes", then, c, b)
		}
	}
}

// countingServer accepts connections and sends nothing. conns and bytes wait until the connections have
// ended.
func countingServer(t *testing.T) (conns, bytes func() int64, target probe.Target) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var accepted, read atomic.Int64
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			served.Go(func() {
				n, _ := io.Copy(io.Discard, conn)
				read.Add(n)
				conn.Close()
			})
		}
	})
	end := sync.OnceFunc(func() {
		l.Close()
		served.Wait()
	})
	t.Cleanup(end)
	conns = func() int64 { end(); return accepted.Load() }
	bytes = func() int64 { end(); return read.Load() }
	return conns, bytes, targetOf(l)
}

func TestCancelUnwindsWaitingGuest(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	h := dialHost(t, func(ctx context.Context) (net.Conn, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	})
	p := loadLate(t, h, plugin.Reset)
	if _, err := bind(t, p, `{"then":"1"}`, elsewhere).Probe(ctx, probe.Request{Target: elsewhere}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := p.Stats(); got.Idle != 1 || got.Busy != 0 {
		t.Errorf("got %+v, want the instance to be used again", got)
	}
}

// TestDeadlineOfComputingGuest checks that a metered guest is unwound, so that its instance can be reset.
// wazero closes the instances of other guests.
func TestDeadlineOfComputingGuest(t *testing.T) {
	for _, tc := range []struct {
		host     *wasm.Host
		deadline wasm.Deadline
		idle     int
	}{{host, wasm.DeadlineFuel, 1}, {checkedHost(t), wasm.DeadlineChecks, 0}} {
		t.Run(string(tc.deadline), func(t *testing.T) {
			p := load(t, tc.host, "spin", plugin.Reset)
			if got := p.Deadline(); got != tc.deadline {
				t.Errorf("the deadline is enforced by %s", got)
			}
			got, err := overrun(t, p, probe.Request{}, 100*time.Millisecond)
			if err != nil || got.Reason != probe.ReasonDeadline {
				t.Errorf("got %+v, %v", got, err)
			}
			if got := p.Stats(); got.Idle != tc.idle || got.Busy != 0 {
				t.Errorf("got %+v, want %d idle", got, tc.idle)
			}
		})
	}
}

// checkedHost returns a host that uses DeadlineChecks for all modules.
func checkedHost(t testing.TB) *wasm.Host {
	t.Helper()
	h, err := wasm.New(wasm.Config{CacheDir: testCache(scratch), Interpreter: interpreter, Checks: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// TestGoGuestWorksAfterDeadline checks a guest that is unwound while its SDK runs.
func TestGoGuestWorksAfterDeadline(t *testing.T) {
	var due *dueContext
	h := dialHost(t, func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		t.Cleanup(func() { far.Close() })
		return &wall{near, due.pass}, nil
	})
	p, err := h.Load(t.Context(), plugin.Found{Module: goModule(t), Manifest: plugin.Minimal("guest")})
	if err != nil {
		t.Fatal(err)
	}
	for _, do := range []string{"echo", "get", "getDefault", "echo"} {
		due = newDue(t)
		guest := bind(t, p, fmt.Sprintf(`{"do":%q}`, do), elsewhere)
		got, err := guest.Probe(due, probe.Request{Target: elsewhere, Spec: probe.Spec{Timeout: time.Minute}})
		wantTimedOut(t, got, err, time.Minute)
		if got := p.Stats(); got.Idle != 1 || got.Busy != 0 {
			t.Fatalf("%s: got %+v, want the instance to be used again", do, got)
		}
		if got, err := attempt(t, p, probe.Request{}, 2*time.Minute); err != nil || got.Result != probe.Success {
			t.Errorf("after %s: got %+v, %v", do, got, err)
		}
	}
}

// TestDeadlinesUnderLoad makes many guests time out and be cancelled at the same time, and
// checks that they release everything.
func TestDeadlinesUnderLoad(t *testing.T) {
	h, err := wasm.New(wasm.Config{CacheDir: testCache(scratch), Interpreter: interpreter})
	if err != nil {
		t.Fatal(err)
	}
	target := blackHole(t)
	p := loadLate(t, h, plugin.Reset)
	var all sync.WaitGroup
	for i := range 48 {
		guest := bind(t, p, fmt.Sprintf(`{"then":"%d"}`, i%8), target)
		all.Go(func() {
			for n := range 6 {
				timeout := time.Duration(5+(i*7+n*3)%20) * time.Millisecond
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				if n == 5 {
					time.AfterFunc(timeout/2, cancel)
				}
				_, err := guest.Probe(ctx, probe.Request{Target: target})
				if err != nil && !errors.Is(err, wasm.ErrNoInstance) && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if got := p.Stats(); got.Busy != 0 {
		t.Errorf("got %+v", got)
	}
	wantFreeSlot(t, h)
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if got := h.Memory(); got != 0 {
		t.Errorf("%d bytes are in use", got)
	}
}
