package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daeace23/prober/core/internal/engine"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// deaf is a handler whose attempts hang while hang is open, regardless of their contexts.
type deaf struct {
	hang           chan struct{} // closed: no attempt hangs
	calls, hanging atomic.Int64
}

func (d *deaf) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	d.calls.Add(1)
	d.hanging.Add(1)
	defer d.hanging.Add(-1)
	<-d.hang
	return probe.Outcome{Result: probe.Success}, nil
}

func TestOverdueAttempt(t *testing.T) {
	overdue := func(t *testing.T, change func(*rig)) (*rig, *deaf) {
		r := newRig(t, probe.Liveness)
		d := &deaf{hang: make(chan struct{})}
		r.cfg.Handler, r.cfg.Spec.ErrorPolicy, r.cfg.Spec.FailureThreshold = d, probe.CountAsFailure, 3
		change(r)
		r.run()
		return r, d
	}
	end := func(r *rig, d *deaf) {
		close(d.hang)
		r.wait(time.Millisecond)
		r.w.Stop()
		r.w.Wait()
		r.shared.Wait()
	}
	for _, policy := range []probe.ErrorPolicy{probe.Discard, probe.CountAsFailure} {
		bubble(t, fmt.Sprintf("is a gate, then an error at every tick, and one goroutine; policy %d", policy), func(t *testing.T) {
			r, d := overdue(t, func(r *rig) { r.cfg.Spec.ErrorPolicy = policy; r.cfg.Task.NoRestart = true })
			r.wait(3 * time.Second)
			if gate := r.w.Status().Gate; gate != "attempt under way for 3s" {
				t.Errorf("gate %q", gate)
			}
			r.wantCached(results.Success)
			r.wait(5 * time.Hour)
			if gate := r.w.Status().Gate; gate != "attempt under way for 5h0m3s" {
				t.Errorf("gate %q", gate)
			}
			want := results.Success
			if policy == probe.CountAsFailure {
				want = results.Failure
			}
			r.wantCached(want)
			if n := d.calls.Load(); n != 1 {
				t.Errorf("%d attempts", n)
			}
			r.mu.Lock()
			last, gates, events := r.ticks[len(r.ticks)-1], r.gates, len(r.events)
			r.mu.Unlock()
			if probe.ReasonOf(last.Err) != probe.ReasonDeadline || !strings.Contains(last.Err.Error(), "does not heed its deadline") || last.Attempts != 0 {
				t.Errorf("last tick %+v", last)
			}
			if len(gates) != 1 || gates[0] != worker.UnderWay || events < 5*3600-30 {
				t.Errorf("gates %v, %d events", gates, events)
			}
			close(d.hang)
			r.wait(2 * time.Second)
			r.wantCached(results.Success)
			if n := d.calls.Load(); n < 2 {
				t.Error("no attempt after the end of the one that hung")
			}
			if gate := r.w.Status().Gate; gate != "" {
				t.Errorf("gate %q", gate)
			}
			if got := r.gates; len(got) != 2 || got[1] != worker.Open {
				t.Errorf("gates %v", got)
			}
		})
	}
	bubble(t, "without a deadline is never abandoned", func(t *testing.T) {
		r, d := overdue(t, func(r *rig) { r.cfg.Spec.Timeout = 0 })
		r.wait(time.Hour)
		if len(r.ticks) != 0 || r.w.Status().Gate != "" {
			t.Errorf("%d ticks, gate %q", len(r.ticks), r.w.Status().Gate)
		}
		end(r, d)
	})
	bubble(t, "that waits for a slot is not late", func(t *testing.T) {
		r, d := overdue(t, func(r *rig) {
			r.cfg.Handler = probe.HandlerFunc(func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
				resume, _ := probe.SuspendTimeout(ctx)
				time.Sleep(time.Minute)
				resume()
				return probe.Outcome{Result: probe.Success}, nil
			})
		})
		r.wait(59 * time.Second)
		if len(r.ticks) != 0 || r.w.Status().Gate != "" {
			t.Errorf("%d ticks, gate %q", len(r.ticks), r.w.Status().Gate)
		}
		r.wait(2 * time.Second)
		if len(r.ticks) != 1 || r.ticks[0].Err != nil {
			t.Errorf("ticks %+v", r.ticks)
		}
		end(r, d)
	})
	for _, after := range []time.Duration{3 * time.Second, time.Minute} {
		bubble(t, fmt.Sprintf("delays the end of its own worker alone, stopped after %v", after), func(t *testing.T) {
			r, d := overdue(t, func(*rig) {})
			r.wait(after)
			r.w.Stop()
			r.wait(time.Hour)
			if r.w.Idle() || r.drained != 0 {
				t.Error("the worker rests, and an attempt is under way")
			}
			if closed := r.closes(); (closed == 1) != (after == time.Minute) {
				t.Errorf("observers closed %d times", closed)
			}
			end(r, d)
			if !r.w.Idle() || r.closes() != 1 || r.drained != 1 {
				t.Errorf("resting %v, closed %d, drained %d times", r.w.Idle(), r.closes(), r.drained)
			}
		})
	}
	bubble(t, "stays one while the probe is changed, paused and triggered", func(t *testing.T) {
		r, d := overdue(t, func(*rig) {})
		r.wait(time.Minute)
		change := engine.Change{Setup: r.cfg.Setup}
		for i := range 50 {
			change.Spec.Period = time.Duration(100+i) * ms
			r.w.Update(change)
			r.w.Pause()
			r.w.Trigger()
			r.w.Resume()
			r.wait(time.Second)
		}
		if n := d.hanging.Load(); n != 1 {
			t.Errorf("%d attempts hang", n)
		}
		end(r, d)
	})
}
