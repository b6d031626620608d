package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/google/go-cmp/cmp"
)

// traces keeps copies of the traces of all ticks.
type traces struct{ all []worker.Trace }

func (o *traces) Observe(worker.Info) worker.ProbeObserver { return o }
func (o *traces) Skipped(worker.SkipReason, int)           {}
func (o *traces) Close()                                   {}
func (o *traces) Tick(t *worker.Tick) {
	o.all = append(o.all, worker.Trace{Events: slices.Clone(t.Trace.Events), Dropped: t.Trace.Dropped})
}

// tracedRig returns a rig whose worker traces its attempts.
func tracedRig(t *testing.T, h probe.HandlerFunc) (*rig, *traces) {
	r, o := newRig(t, probe.Readiness), new(traces)
	r.shared.Trace, r.shared.Observers, r.cfg.Handler = true, []worker.Observer{o}, h
	return r, o
}

func TestTickHasTraceOfAllAttempts(t *testing.T) {
	bubble(t, "retries", func(t *testing.T) {
		r, o := tracedRig(t, func(_ context.Context, req probe.Request) (probe.Outcome, error) {
			time.Sleep(10 * ms)
			req.Trace.Emit(probe.TraceEvent{Type: probe.TracePhase, Name: "connect", Detail: fmt.Sprint(req.Attempt, req.Debug), Duration: ms})
			if req.Attempt < 3 {
				return probe.Outcome{}, errors.New("broken")
			}
			return probe.Outcome{Result: probe.Success}, nil
		})
		r.run().wait(100 * ms)
		retry := func(n string) probe.TraceEvent {
			return probe.TraceEvent{Type: probe.TraceRetry, Name: n, Detail: "broken", Duration: 10 * ms}
		}
		connect := func(detail string) probe.TraceEvent {
			return probe.TraceEvent{Type: probe.TracePhase, Name: "connect", Detail: detail, Duration: ms}
		}
		want := []probe.TraceEvent{connect("1 true"), retry("2"), connect("2 true"), retry("3"), connect("3 true")}
		if all := o.all; len(all) != 1 || cmp.Diff(want, all[0].Events) != "" {
			t.Errorf("got %+v, want %+v", all, want)
		}
	})
}

// Events that a handler emits after its attempt, such as from net/http hooks in other goroutines, are in no
// trace: the next tick of the same goroutine may belong to another probe.
func TestTraceAfterAttempt(t *testing.T) {
	bubble(t, "late", func(t *testing.T) {
		var late probe.Tracer
		r, o := tracedRig(t, func(_ context.Context, req probe.Request) (probe.Outcome, error) {
			if late = req.Trace; req.Attempt == 1 {
				go func() {
					for range 10 {
						late.Emit(probe.TraceEvent{Type: probe.TracePhase, Name: "late"}) // for the race detector
					}
				}()
			}
			return probe.Outcome{Result: probe.Success}, nil
		})
		r.run().wait(100 * ms)
		late.Emit(probe.TraceEvent{Type: probe.TracePhase, Name: "too late"})
		r.tick()
		r.w.Stop()
		if len(o.all) != 2 || slices.ContainsFunc(o.all[1].Events, func(e probe.TraceEvent) bool { return e.Name == "too late" }) {
			t.Errorf("traces %+v", o.all)
		}
	})
}

func TestTraceIsBounded(t *testing.T) {
	bubble(t, "flood", func(t *testing.T) {
		r, o := tracedRig(t, func(_ context.Context, req probe.Request) (probe.Outcome, error) {
			for range 1000 {
				req.Trace(probe.TraceEvent{Type: probe.TraceLog, Name: "info", Detail: strings.Repeat("x", 100)})
			}
			req.Trace(probe.TraceEvent{Type: probe.TraceLog, Name: strings.Repeat("n", 1<<20), Detail: "x"})
			req.Trace(probe.TraceEvent{Type: probe.TraceWait, Name: "read", Detail: strings.Repeat("w", 1<<20)})
			return probe.Outcome{Result: probe.Failure}, nil
		})
		r.run().wait(100 * ms)
		all := o.all
		if len(all) != 1 {
			t.Fatalf("%d ticks", len(all))
		}
		bytes := 0
		for _, e := range all[0].Events {
			bytes += len(e.Name) + len(e.Detail)
		}
		last := all[0].Events[len(all[0].Events)-1]
		if n := len(all[0].Events); n+all[0].Dropped != 1002 || n > 65 || bytes > 5<<10 || last.Type != probe.TraceWait {
			t.Errorf("%d events, %d dropped, %d bytes, the last %s", n, all[0].Dropped, bytes, last.Type)
		}
	})
}

func TestDebugFollowsFailureAndTrigger(t *testing.T) {
	bubble(t, "debug", func(t *testing.T) {
		var got []bool
		results := []probe.Result{probe.Success, probe.Success, probe.Failure, probe.Success, probe.Warning, probe.Success, probe.Success}
		r, _ := tracedRig(t, func(_ context.Context, req probe.Request) (probe.Outcome, error) {
			got = append(got, req.Debug)
			return probe.Outcome{Result: results[len(got)-1]}, nil
		})
		r.run().wait(5500 * ms) // ticks at 0 to 5 s
		r.w.Trigger()
		r.wait(100 * ms)
		// The first tick has no previous tick; the last one was triggered.
		if diff := cmp.Diff([]bool{true, false, false, true, false, false, true}, got); diff != "" {
			t.Errorf("debug of each tick (-want +got):\n%s", diff)
		}
	})
	bubble(t, "without traces", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.cfg.Handler = probe.HandlerFunc(func(_ context.Context, req probe.Request) (probe.Outcome, error) {
			if req.Trace != nil || req.Debug {
				t.Errorf("trace %t, debug %t", req.Trace != nil, req.Debug)
			}
			return probe.Outcome{Result: probe.Failure}, nil
		})
		r.run().wait(3 * time.Second)
		if r.lastTick().Trace != nil {
			t.Error("a tick with a trace")
		}
	})
}
