package engine_test

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/internal/engine"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// broken is an observer and an owner whose selected methods panic.
type broken struct{ tick, skipped, closed, ended, drained, gated bool }

func panicIf(b bool) {
	if b {
		panic("broken observer")
	}
}

func (b *broken) Observe(worker.Info) worker.ProbeObserver { return b }
func (b *broken) Tick(*worker.Tick)                        { panicIf(b.tick) }
func (b *broken) Skipped(worker.SkipReason, int)           { panicIf(b.skipped) }
func (b *broken) Close()                                   { panicIf(b.closed) }
func (b *broken) Gated(worker.Gate)                        { panicIf(b.gated) }
func (b *broken) Ended()                                   { panicIf(b.ended) }
func (b *broken) Drained()                                 { panicIf(b.drained) }

// source is a [worker.Source] function.
type source func() worker.State

func (s source) State() worker.State { return s() }

func TestPanicOfObserver(t *testing.T) {
	for name, b := range map[string]*broken{
		"in Tick":             {tick: true},
		"in Tick and Skipped": {tick: true, skipped: true},
		"in Gated":            {gated: true, skipped: true},
	} {
		bubble(t, name+" does not end the worker", func(t *testing.T) {
			r := newRig(t, probe.Readiness)
			r.shared.Observers = []worker.Observer{b}
			r.run().wait(3 * time.Second)
			r.wantTimes(0, 1000, 2000, 3000)
			r.become(func(s *worker.State) { s.Started = false })
			r.wait(2 * time.Second)
			r.become(func(s *worker.State) { s.Started = true })
			r.wait(2 * time.Second)
			r.wantTimes(0, 1000, 2000, 3000, 6000, 7000)
			r.wantCached(results.Success)
		})
	}
	bubble(t, "in Skipped of a late tick does not lose the tick", func(t *testing.T) {
		r := newRig(t, probe.Readiness, success.After(3500*ms), success)
		r.cfg.Spec.Timeout = 0
		r.shared.Observers = []worker.Observer{&broken{skipped: true}}
		r.run().wait(5 * time.Second)
		r.wantTimes(0, 3500, 4000, 5000)
	})
	for name, b := range map[string]*broken{
		"in Close": {closed: true}, "in Ended": {ended: true}, "in Drained": {drained: true}, "in all of them": {closed: true, ended: true, drained: true},
	} {
		bubble(t, name+" does not keep the worker from ending, nor others from ticking", func(t *testing.T) {
			r := newRig(t, probe.Readiness)
			other := newRig(t, probe.Readiness)
			other.restart("c2")
			stops := 0
			r.cfg.Task.Source = publisher{r.state, &stops}
			r.cfg.Owner = b
			r.shared.Observers = []worker.Observer{b}
			r.run()
			w := engine.New(&r.shared, other.cfg)
			w.Start()
			r.cfg.Task.SetState(worker.State{Found: true, PodEnded: true})
			r.wait(3 * time.Second)
			r.w.Wait()
			if !r.w.Idle() {
				t.Error("the worker has not ended")
			}
			if stops != 1 {
				t.Errorf("publisher stopped %d times, want 1", stops)
			}
			other.wantTimes(0, 1000, 2000, 3000)
			other.become(func(s *worker.State) { s.PodEnded = true })
			r.wait(time.Second)
			w.Wait()
			r.shared.Wait()
		})
	}
}

// publisher publishes one state, and counts the calls of stop.
type publisher struct {
	state worker.State
	stops *int
}

func (p publisher) State() worker.State { return p.state }

func (p publisher) Publish(set func(worker.State)) (stop func(), ok bool) {
	set(p.state)
	return func() { *p.stops++ }, true
}

func TestPanicOfSource(t *testing.T) {
	bubble(t, "skips the tick", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		state, calls := r.state, 0
		r.cfg.Task.Source = source(func() worker.State {
			if calls++; calls == 2 {
				panic("broken source")
			}
			return state
		})
		r.run().wait(3 * time.Second)
		r.wantTimes(0, 2000, 3000)
		if got := r.skips(worker.SkipPanic); got != 1 {
			t.Errorf("%d ticks skipped, want 1", got)
		}
	})
}

func TestPanicOfEvent(t *testing.T) {
	bubble(t, "does not end the worker", func(t *testing.T) {
		r := newRig(t, probe.Readiness, success, failure, success)
		r.shared.Event = func(*engine.Worker, worker.EventReason, string) { panic("broken recorder") }
		r.run().wait(1 * time.Second)
		r.wantCached(results.Failure)
		r.wait(2 * time.Second)
		r.wantTimes(0, 1000, 2000, 3000)
		r.wantCached(results.Success)
	})
}

func TestLongestPeriod(t *testing.T) {
	for _, period := range []time.Duration{1 << 61, 1<<61 + 1, 1 << 62, math.MaxInt64} {
		bubble(t, period.String()+" ticks once, and when it is triggered", func(t *testing.T) {
			r := newRig(t, probe.Readiness)
			r.cfg.Spec.Period, r.cfg.Spec.Timeout = period, math.MaxInt64
			r.run().wait(time.Second)
			r.w.Trigger()
			r.wait(24 * time.Hour)
			change := engine.Change{Setup: r.cfg.Setup, KeepRun: true, KeepPaused: true}
			r.w.Update(change) // the period is unchanged, so there is no tick
			r.wait(time.Hour)
			r.wantTimes(0, 1000)
			if next := r.w.Status().Next.Sub(r.start); next < 50*365*24*time.Hour {
				t.Errorf("next is due after %v", next)
			}
			change.Spec.Period = time.Hour
			r.w.Update(change)
			r.wait(90 * time.Minute)
			if got := r.handler.Count(); got != 4 {
				t.Errorf("%d attempts, want 4: one now, one an hour later", got)
			}
			change.Spec.Period = period
			r.w.Update(change)
			r.wait(1000 * time.Hour)
			if got := r.handler.Count(); got != 4 {
				t.Errorf("%d attempts, want 4", got)
			}
			r.w.Stop()
			r.w.Wait()
			if got := r.closes(); got != 1 {
				t.Errorf("observer closed %d times", got)
			}
		})
	}
	bubble(t, "longest delay and phase wait", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.cfg.Spec.Period, r.cfg.Delay, r.cfg.Phase = math.MaxInt64, math.MaxInt64, math.MaxInt64
		r.run().wait(1000 * time.Hour)
		r.wantCalls(0)
		r.w.Trigger()
		r.wait(1000 * time.Hour)
		r.wantCalls(1)
	})
}

func TestShortestPeriod(t *testing.T) {
	bubble(t, "of 1 ns does not overlap, and counts what is lost", func(t *testing.T) {
		r := newRig(t, probe.Readiness, success.After(ms))
		r.cfg.Spec.Period, r.cfg.Spec.Timeout = 1, 0
		r.run().wait(100 * ms)
		if got := r.handler.Peak(); got != 1 {
			t.Errorf("%d attempts at one time", got)
		}
		r.w.Stop()
		r.w.Wait()
		calls, lost := r.handler.Count(), r.skips(worker.SkipBusy)
		if total := calls + lost; total < int(99*ms) || total > int(101*ms) {
			t.Errorf("%d attempts and %d lost ticks in 100 ms", calls, lost)
		}
	})
}

// TestHangingAttemptsDelayNoOtherWorker checks that hanging attempts delay no other worker: the ticks of a
// healthy worker are exact to the nanosecond.
func TestHangingAttemptsDelayNoOtherWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.cfg.Spec.Period = 100 * ms
		var hanging atomic.Int64
		hang := probe.HandlerFunc(func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
			hanging.Add(1)
			<-ctx.Done()
			hanging.Add(-1)
			return probe.Outcome{}, ctx.Err()
		})
		var stuck []*engine.Worker
		for i := range 1000 {
			neighbour := newRig(t, probe.Readiness)
			neighbour.restart(fmt.Sprint("neighbour", i))
			cfg := neighbour.cfg
			cfg.Observer, cfg.Owner, cfg.Handler, cfg.Spec.Timeout = nil, nil, hang, 0
			cfg.Delay = 5 * ms
			w := engine.New(&r.shared, cfg)
			w.Start()
			stuck = append(stuck, w)
		}
		r.run().wait(10 * time.Second)
		if got := hanging.Load(); got != 1000 {
			t.Errorf("%d attempts hang, want 1000", got)
		}
		for i, at := range r.callTimes() {
			if want := time.Duration(i) * 100 * ms; at != want {
				t.Errorf("tick %d at %v, want %v", i, at, want)
			}
		}
		r.wantCalls(101)
		for _, w := range stuck {
			w.Stop()
		}
		r.w.Stop()
		r.shared.Wait()
		if got := hanging.Load(); got != 0 {
			t.Errorf("%d attempts hang after the end of all workers", got)
		}
	})
}
