package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/daeace23/prober/core/internal/engine"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// suspending is a handler whose attempts wait with a suspended timeout, and then wait for their context or
// their work.
type suspending struct {
	t          *testing.T
	wait, work time.Duration
	asked      bool          // the context is used before the timeout is suspended
	woken      []error       // errors of the context at the end of the wait; nil if it had not ended
	left       time.Duration // time from the end of the wait to the deadline
}

func (s *suspending) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	if s.asked {
		derived, cancel := context.WithCancel(ctx)
		defer cancel()
		ctx = derived
		_ = ctx.Done()
	}
	resume, ok := probe.SuspendTimeout(ctx)
	if !ok {
		s.t.Error("the timeout of an attempt cannot be suspended")
		return probe.Outcome{}, nil
	}
	if at, ok := ctx.Deadline(); ok {
		s.t.Errorf("suspended, the deadline is %v", at)
	}
	s.woken = append(s.woken, sleep(ctx, s.wait))
	resume()
	deadline, _ := ctx.Deadline()
	s.left = time.Until(deadline)
	if sleep(ctx, s.work) != nil {
		if _, ok := probe.SuspendTimeout(ctx); ok {
			s.t.Error("the timeout of an attempt that has ended can be suspended")
		}
		return probe.TimedOut(req.Spec.Timeout), nil
	}
	return probe.Outcome{Result: probe.Success}, nil
}

// sleep waits for d, and returns the error of ctx if ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestTimeoutSuspendedTwice(t *testing.T) {
	bubble(t, "the timeout begins when the last part of the handler is ready", func(t *testing.T) {
		r := newRig(t, probe.Liveness)
		r.cfg.Spec.Timeout, r.cfg.Spec.Period = time.Second, 10*time.Second
		calls := 0
		r.cfg.Handler = probe.HandlerFunc(func(ctx context.Context, req probe.Request) (probe.Outcome, error) {
			if calls++; calls > 1 {
				return probe.Outcome{Result: probe.Success}, nil
			}
			first, _ := probe.SuspendTimeout(ctx)
			time.Sleep(300 * time.Millisecond)
			second, ok := probe.SuspendTimeout(ctx)
			first()
			first()
			if !ok || sleep(ctx, 2*time.Second) != nil {
				t.Error("the timeout runs while one part is suspended")
			}
			second()
			if deadline, _ := ctx.Deadline(); time.Until(deadline) != time.Second {
				t.Errorf("%v are left", time.Until(deadline))
			}
			return probe.Outcome{Result: probe.Success}, nil
		})
		r.run().wait(2400 * time.Millisecond)
		if tick := r.lastTick(); tick.Outcome.Result != probe.Success || tick.Deferred != 2300*time.Millisecond || calls != 1 {
			t.Errorf("%+v", tick)
		}
	})
}

func TestSuspendedTimeout(t *testing.T) {
	for name, asked := range map[string]bool{"no timer": false, "timer runs": true} {
		bubble(t, name+"/success after the timeout is a success", func(t *testing.T) {
			r := newRig(t, probe.Liveness)
			h := &suspending{t: t, wait: 800 * time.Millisecond, work: 100 * time.Millisecond, asked: asked}
			r.cfg.Handler = h
			r.run().wait(900 * time.Millisecond)
			tick := r.lastTick()
			if tick.Outcome.Result != probe.Success || tick.Deferred != h.wait || tick.Duration() != h.work {
				t.Errorf("got %v, deferred for %v, duration %v", tick.Outcome.Result, tick.Deferred, tick.Duration())
			}
			if h.left != r.cfg.Spec.Timeout {
				t.Errorf("%v of the timeout are left", h.left)
			}
		})
		bubble(t, name+"/timeout after the wait is a failure", func(t *testing.T) {
			r := newRig(t, probe.Liveness)
			r.cfg.Handler = &suspending{t: t, wait: 100 * time.Millisecond, work: time.Hour, asked: asked}
			r.run().wait(600 * time.Millisecond)
			tick := r.lastTick()
			if tick.Err != nil || tick.Outcome.Output != "timed out after 500ms" || tick.End.Sub(tick.Start) != 600*time.Millisecond {
				t.Errorf("got %+v, %v after %v", tick.Outcome, tick.Err, tick.End.Sub(tick.Start))
			}
			r.wantCached(results.Failure)
		})
		for change, do := range map[string]func(*engine.Worker){
			"stop": (*engine.Worker).Stop, "pause": (*engine.Worker).Pause,
			"change": func(w *engine.Worker) { w.Update(engine.Change{Setup: w.Setup()}) },
		} {
			bubble(t, name+"/"+change+" after the timeout ends the wait", func(t *testing.T) {
				r := newRig(t, probe.Liveness)
				h := &suspending{t: t, wait: 900 * time.Millisecond, asked: asked}
				r.cfg.Handler = h
				r.run().wait(700 * time.Millisecond)
				do(r.w)
				r.wait(0)
				if len(h.woken) != 1 || h.woken[0] != context.Canceled {
					t.Errorf("woken by %v", h.woken)
				}
				if len(r.ticks) != 0 {
					t.Errorf("%d ticks were counted", len(r.ticks))
				}
				r.w.Stop()
			})
		}
	}
}

func TestSuspendTimeoutOfOtherContexts(t *testing.T) {
	bubble(t, "attempt", func(t *testing.T) {
		r := newRig(t, probe.Liveness)
		r.cfg.Handler = probe.HandlerFunc(func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
			before, _ := ctx.Deadline()
			shorter, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			for name, other := range map[string]context.Context{
				"own deadline": shorter, "without cancel": context.WithoutCancel(ctx), "of no attempt": t.Context(),
			} {
				if _, ok := probe.SuspendTimeout(other); ok {
					t.Errorf("%s: the timeout was suspended", name)
				}
			}
			if after, _ := ctx.Deadline(); after != before {
				t.Errorf("the deadline moved from %v to %v", before, after)
			}
			return probe.Outcome{Result: probe.Success}, nil
		})
		r.run().tick()
		r.wantCached(results.Success)
	})
}
