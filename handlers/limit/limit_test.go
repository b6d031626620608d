package limit_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/limit"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ms = time.Millisecond
	// Period and timeout of the probes of a rig.
	period, timeout = 10 * time.Second, time.Second
)

// rig has probes of one handler with a limit, in a bubble.
type rig struct {
	t       *testing.T
	start   time.Time
	group   *group.Group[string]
	made    *observed // the result of the next Observe
	limit   *limit.Limit
	handler *probetest.Handler
}

// observed is a probe with the calls of its observer.
type observed struct {
	id group.ID[string]

	mu      sync.Mutex
	ticks   []worker.Tick
	skipped map[worker.SkipReason]int
}

func (o *observed) Tick(t *worker.Tick) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ticks = append(o.ticks, *t)
}

func (o *observed) Skipped(reason worker.SkipReason, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.skipped[reason] += n
}

func (o *observed) Close() {}

// seen returns the ticks so far.
func (o *observed) seen() []worker.Tick {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.ticks)
}

// skips returns how many ticks were skipped so far, by reason.
func (o *observed) skips() map[worker.SkipReason]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.skipped)
}

// inBubble runs test with a handler that follows steps, limited to n attempts. It checks that no
// goroutine is left after its probes have stopped.
func inBubble(t *testing.T, name string, n int, steps []probetest.Step, test func(*testing.T, *rig)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := &rig{t: t, start: time.Now(), limit: limit.New(limit.Config{MaxInFlight: n}), handler: probetest.NewHandler(steps...)}
			var err error
			if r.group, err = group.New[string](group.Config{Observers: []worker.Observer{r}, Logger: discard}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = r.group.Shutdown(context.Background()) }) // waits for running attempts
			test(t, r)
		})
	})
}

// add starts a probe of h.
func (r *rig) add(id string, h probe.Handler) *observed {
	task := &worker.Task{Subject: results.Subject{Container: id}}
	task.SetState(worker.Running(id, r.start))
	r.made = &observed{skipped: make(map[worker.SkipReason]int), id: group.ID[string]{Key: id, Task: id, Kind: probe.Readiness}}
	err := r.group.Add(id, group.Probe{
		Spec:    probe.Spec{Period: period, Timeout: timeout, SuccessThreshold: 1, FailureThreshold: 1},
		Handler: h, Name: "fake", Kind: probe.Readiness, Task: task,
	})
	if err == nil {
		err = r.group.Trigger(r.made.id) // avoids the delay of the first tick
	}
	if err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	return r.made
}

// Observe implements [worker.Observer].
func (r *rig) Observe(worker.Info) worker.ProbeObserver { return r.made }

// addAll starts n probes of r's handler, one per millisecond.
func (r *rig) addAll(n int) (all []*observed) {
	for i := range n {
		all = append(all, r.add(strconv.Itoa(i), r.limit.Wrap(r.handler)))
		r.wait(ms)
	}
	return all
}

func (r *rig) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// waitUntil waits until d after the start of the bubble.
func (r *rig) waitUntil(d time.Duration) { r.wait(time.Until(r.start.Add(d))) }

// wantStats checks the state of the limit.
func (r *rig) wantStats(want limit.Stats) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.limit.Stats()); diff != "" {
		r.t.Errorf("stats (-want +got):\n%s", diff)
	}
}

// wantStarts checks when attempts began in the handler, and that each had its full timeout.
func (r *rig) wantStarts(want ...time.Duration) {
	r.t.Helper()
	var got []time.Duration
	for _, c := range r.handler.Calls() {
		got = append(got, c.Start.Sub(r.start))
		if c.Timeout != timeout {
			r.t.Errorf("an attempt begins with a timeout of %v", c.Timeout)
		}
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("attempts began at %v, want %v", got, want)
	}
}

// want checks the result of the only tick of a probe, and how long the tick was deferred.
func (o *observed) want(t *testing.T, result probe.Result, deferred time.Duration) {
	t.Helper()
	if len(o.seen()) != 1 || len(o.skips()) != 0 {
		t.Fatalf("%d ticks, skipped %v; want one tick", len(o.seen()), o.skips())
	}
	if k := o.seen()[0]; k.Err != nil || k.Outcome.Result != result || k.Deferred != deferred {
		t.Errorf("%v, %v, deferred for %v; want %v after %v", k.Outcome, k.Err, k.Deferred, result, deferred)
	}
}

var success = probetest.Answer(probe.Success, "")

func TestDeferredAttempts(t *testing.T) {
	inBubble(t, "first come, first served", 1, []probetest.Step{success.After(900 * ms)}, func(t *testing.T, r *rig) {
		all := r.addAll(4)
		r.wantStats(limit.Stats{MaxInFlight: 1, InFlight: 1, Waiting: 3, Deferred: 3})
		r.waitUntil(5 * time.Second)
		r.wantStarts(0, 900*ms, 1800*ms, 2700*ms)
		for i, o := range all {
			o.want(t, probe.Success, time.Duration(i)*(900*ms-ms))
		}
		r.wantStats(limit.Stats{MaxInFlight: 1, Deferred: 3})
	})
	inBubble(t, "timeout after a wait longer than the timeout", 1, []probetest.Step{success.After(900 * ms), success.After(900 * ms), probetest.Hang()}, func(t *testing.T, r *rig) {
		all := r.addAll(3)
		r.waitUntil(2799 * ms)
		if n := len(all[2].seen()); n != 0 {
			t.Errorf("%d ticks before the timeout", n)
		}
		r.wait(ms)
		all[2].want(t, probe.Failure, 1798*ms)
		if k := all[2].seen()[0]; k.Outcome.Output != "timed out after 1s" || k.Outcome.Reason != probe.ReasonDeadline || k.Duration() != timeout {
			t.Errorf("%+v after %v", k.Outcome, k.Duration())
		}
	})
	inBubble(t, "hanging attempts give their slot up at the timeout", 1, []probetest.Step{probetest.Hang(), success}, func(t *testing.T, r *rig) {
		all := r.addAll(2)
		r.waitUntil(timeout)
		all[0].want(t, probe.Failure, 0)
		all[1].want(t, probe.Success, timeout-ms)
	})
	inBubble(t, "free slots", 3, []probetest.Step{success.After(500 * ms)}, func(t *testing.T, r *rig) {
		r.addAll(3)
		r.wantStats(limit.Stats{MaxInFlight: 3, InFlight: 3})
		r.waitUntil(period - ms)
		r.wantStats(limit.Stats{MaxInFlight: 3})
	})
	inBubble(t, "no limit", 0, []probetest.Step{success.After(500 * ms)}, func(t *testing.T, r *rig) {
		r.addAll(50)
		r.wantStats(limit.Stats{InFlight: 50})
	})
	inBubble(t, "panic gives the slot up", 1, []probetest.Step{probetest.Panic("broken").After(500 * ms), success.After(ms)}, func(t *testing.T, r *rig) {
		all := r.addAll(2)
		r.waitUntil(510 * ms)
		all[1].want(t, probe.Success, 499*ms)
		r.wantStats(limit.Stats{MaxInFlight: 1, Deferred: 2}) // the second attempt is a retry of the first
	})
}

func TestSkippedAttempts(t *testing.T) {
	deaf := probetest.Step{Delay: time.Hour, Deaf: true}
	inBubble(t, "no slot for a period", 1, []probetest.Step{success, deaf}, func(t *testing.T, r *rig) {
		all := r.addAll(2) // the second probe gets the slot at 1 ms
		all[0].want(t, probe.Success, 0)
		r.waitUntil(4*period - ms)
		if n := all[0].skips()[worker.SkipNoSlot]; n != 2 || len(all[0].skips()) != 1 || len(all[0].seen()) != 1 {
			t.Errorf("skipped %v, %d ticks", all[0].skips(), len(all[0].seen()))
		}
		if s, _ := r.group.Status(all[0].id); s.Decided != results.Success || s.Run != 1 {
			t.Errorf("decided %v, run %d", s.Decided, s.Run)
		}
		r.wantStats(limit.Stats{MaxInFlight: 1, InFlight: 1, Waiting: 1, Deferred: 3})
		r.group.Remove(all[0].id.Key)
		r.waitUntil(time.Hour + time.Second) // when the other attempt returns
	})
	inBubble(t, "retry without a slot", 1, []probetest.Step{probetest.Error(errors.New("broken")).After(500 * ms), deaf}, func(t *testing.T, r *rig) {
		all := r.addAll(2)
		r.waitUntil(500 * ms) // the second probe has the slot, and the retry of the first one waits
		r.wantStats(limit.Stats{MaxInFlight: 1, InFlight: 1, Waiting: 1, Deferred: 2})
		r.waitUntil(500*ms + period)
		if n := all[0].skips()[worker.SkipNoSlot]; n != 1 || len(all[0].seen()) != 0 {
			t.Errorf("skipped %v, %d ticks", all[0].skips(), len(all[0].seen()))
		}
		r.group.Remove(all[0].id.Key)
		r.waitUntil(time.Hour + time.Second)
	})
	inBubble(t, "retry with a slot", 1, []probetest.Step{probetest.Error(errors.New("broken")).After(500 * ms), success.After(500 * ms)}, func(t *testing.T, r *rig) {
		all := r.addAll(2)
		r.waitUntil(1500 * ms)
		r.wantStarts(0, 500*ms, 1000*ms)
		all[0].want(t, probe.Success, 500*ms)
		all[1].want(t, probe.Success, 499*ms)
		if n := all[0].seen()[0].Attempts; n != 2 {
			t.Errorf("%d attempts", n)
		}
	})
}

func TestCancelledWait(t *testing.T) {
	for name, cancel := range map[string]func(*group.Group[string], group.ID[string]) error{
		"stop": func(g *group.Group[string], id group.ID[string]) error {
			g.Remove(id.Key)
			return nil
		},
		"pause": (*group.Group[string]).Pause,
		"change": func(g *group.Group[string], id group.ID[string]) error {
			err := g.Pause(id) // otherwise it would wait again
			p, _ := g.Current(id)
			p.Spec.FailureThreshold++
			return errors.Join(err, g.Update(id.Key, p))
		},
	} {
		for when, at := range map[string]time.Duration{"before": 500 * ms, "after": 2500 * ms} {
			inBubble(t, name+" "+when+" the timeout", 1, []probetest.Step{success.After(900 * ms)}, func(t *testing.T, r *rig) {
				all := r.addAll(5)
				waiting := r.limit.Stats().Waiting
				if when == "after" {
					waiting = 2
				}
				r.waitUntil(at)
				if err := cancel(r.group, all[3].id); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				r.wantStats(limit.Stats{MaxInFlight: 1, InFlight: 1, Waiting: waiting - 1, Deferred: 4})
				r.waitUntil(period - ms)
				if len(all[3].seen()) != 0 || len(all[3].skips()) != 0 {
					t.Errorf("%d ticks, skipped %v", len(all[3].seen()), all[3].skips())
				}
				r.wantStarts(0, 900*ms, 1800*ms, 2700*ms) // the other four attempts
			})
		}
	}
}

func TestSetMaxInFlight(t *testing.T) {
	inBubble(t, "attempts that wait begin at once", 1, []probetest.Step{success.After(900 * ms)}, func(t *testing.T, r *rig) {
		r.addAll(6)
		r.waitUntil(100 * ms)
		r.limit.SetMaxInFlight(3)
		synctest.Wait()
		r.wantStats(limit.Stats{MaxInFlight: 3, InFlight: 3, Waiting: 3, Deferred: 5})
		r.limit.SetMaxInFlight(0)
		synctest.Wait()
		r.wantStats(limit.Stats{InFlight: 6, Deferred: 5})
		r.limit.SetMaxInFlight(2)
		r.add("late", r.limit.Wrap(r.handler))
		r.waitUntil(990 * ms) // the first attempt has ended
		r.wantStats(limit.Stats{MaxInFlight: 2, InFlight: 5, Waiting: 1, Deferred: 6})
		r.waitUntil(1000 * ms)
		r.wantStarts(0, 100*ms, 100*ms, 100*ms, 100*ms, 100*ms, 1000*ms)
	})
}

// preparer prepares handlers that share one script.
type preparer struct{ *probetest.Handler }

func (p preparer) Prepare([]byte, probe.Target) (probe.Handler, error) { return p.Handler, nil }

func TestProbesOfOneHandlerShareTheLimit(t *testing.T) {
	inBubble(t, "registered handler", 2, []probetest.Step{success.After(500 * ms)}, func(t *testing.T, r *rig) {
		var reg handlers.Registry
		if err := reg.Register("fake", "test", r.limit.Wrap(preparer{r.handler})); err != nil {
			t.Fatal(err)
		}
		for i := range 7 {
			h, err := reg.Prepare("fake", []byte(`{"a":1}`), probe.Target{})
			if err != nil {
				t.Fatal(err)
			}
			r.add(strconv.Itoa(i), h)
		}
		r.waitUntil(period - ms)
		if n, peak := r.handler.Count(), r.handler.Peak(); n != 7 || peak != 2 {
			t.Errorf("%d attempts, %d at a time", n, peak)
		}
	})
}

// TestOtherContexts checks that a context whose timeout cannot be suspended bounds the wait.
func TestOtherContexts(t *testing.T) {
	inBubble(t, "deadline", 1, []probetest.Step{success.After(900 * ms)}, func(t *testing.T, r *rig) {
		r.addAll(1)
		ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
		defer cancel()
		_, err := r.limit.Wrap(r.handler).Probe(ctx, probe.Request{Spec: probe.Spec{Period: period}})
		if !errors.Is(err, probe.ErrNoSlot) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		r.wantStats(limit.Stats{MaxInFlight: 1, InFlight: 1, Deferred: 1})
	})
	inBubble(t, "cancelled", 1, []probetest.Step{success.After(900 * ms)}, func(t *testing.T, r *rig) {
		r.addAll(1)
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		if _, err := r.limit.Wrap(r.handler).Probe(ctx, probe.Request{Spec: probe.Spec{Period: period}}); err != gone {
			t.Errorf("got %v", err)
		}
	})
	inBubble(t, "cancelled before it has the slot", 1, []probetest.Step{success.After(900 * ms)}, func(t *testing.T, r *rig) {
		r.addAll(1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error)
		go func() {
			_, err := r.limit.Wrap(r.handler).Probe(ctx, probe.Request{Spec: probe.Spec{Period: period}})
			done <- err
		}()
		synctest.Wait()
		cancel()
		r.limit.SetMaxInFlight(2) // the waiter gets a slot before it runs again
		if err := <-done; err != context.Canceled {
			t.Errorf("got %v", err)
		}
		r.wantStats(limit.Stats{MaxInFlight: 2, InFlight: 1, Deferred: 1})
		r.wantStarts(0)
	})
	inBubble(t, "no period", 1, []probetest.Step{success.After(900 * ms)}, func(t *testing.T, r *rig) {
		r.addAll(1)
		_, err := r.limit.Wrap(r.handler).Probe(t.Context(), probe.Request{})
		if want := "no free slot within 0s: 1 attempts of the handler are in flight"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}

func TestFreeSlotDoesNotAllocate(t *testing.T) {
	h := limit.New(limit.Config{MaxInFlight: 1}).Wrap(probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
		return probe.Outcome{Result: probe.Success}, nil
	}))
	ctx, req := t.Context(), probe.Request{Spec: probe.Spec{Period: period}}
	if n := testing.AllocsPerRun(100, func() { _, _ = h.Probe(ctx, req) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
