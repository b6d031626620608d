package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
	"github.com/google/go-cmp/cmp"
)

var errBoom = errors.New("boom")

func TestAttempts(t *testing.T) {
	boom := probetest.Error(errBoom)
	for _, tc := range []struct {
		name  string
		steps []probetest.Step
		calls int
		want  results.Result
		err   bool
	}{
		{"#220 error, error, success: three attempts, Success", []probetest.Step{boom, boom, success, failure}, 3, results.Success, false},
		{"#220 error, failure: two attempts, Failure", []probetest.Step{boom, failure, success}, 2, results.Failure, false},
		{"#220 three errors: three attempts, the last error", []probetest.Step{
			probetest.Error(errors.New("first")), probetest.Error(errors.New("second")), boom, success,
		}, 3, results.Failure, true},
		{"#220 failure: one attempt", []probetest.Step{failure, success}, 1, results.Failure, false},
	} {
		bubble(t, tc.name, func(t *testing.T) {
			r := newRig(t, probe.Readiness, tc.steps...).run()
			r.wantCalls(tc.calls)
			r.wantCached(tc.want)
			tick := r.lastTick()
			if errors.Is(tick.Err, errBoom) != tc.err || tick.Attempts != tc.calls {
				t.Errorf("tick: error %v after %d attempts", tick.Err, tick.Attempts)
			}
		})
	}
	bubble(t, "#221 each attempt has the full timeout, without a pause between them", func(t *testing.T) {
		boom := boom.After(400 * time.Millisecond)
		r := newRig(t, probe.Readiness, boom, boom, boom, success).run()
		r.wait(1300 * time.Millisecond)
		want := []time.Duration{0, 400 * time.Millisecond, 800 * time.Millisecond}
		if diff := cmp.Diff(want, r.callTimes()[:3]); diff != "" {
			t.Error(diff)
		}
		for i, c := range r.handler.Calls()[:3] {
			if c.Timeout != 500*time.Millisecond || c.Request.Attempt != i+1 {
				t.Errorf("call %d: timeout %v, attempt %d", i+1, c.Timeout, c.Request.Attempt)
			}
		}
	})
	bubble(t, "#222 error changes neither cache nor run", func(t *testing.T) {
		r := newRig(t, probe.Readiness, success, success, boom)
		r.cfg.Spec.SuccessThreshold = 3
		r.run().tick()
		r.tick()
		r.wantRun(2, false)
		r.wantCached(results.Failure)
		r.does(success)
		r.tick()
		r.wantCached(results.Success)
	})
	bubble(t, "attempt with timeout 0 has no deadline", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.cfg.Spec.Timeout = 0
		r.run()
		if got := r.handler.Calls()[0].Timeout; got != 0 {
			t.Errorf("a deadline after %v", got)
		}
	})
}

func TestDeadlineOfAnAttempt(t *testing.T) {
	bubble(t, "missed deadline is a Failure, and not retried", func(t *testing.T) {
		r := newRig(t, probe.Readiness, probetest.Hang()).run()
		r.wait(600 * time.Millisecond)
		r.wantCalls(1)
		tick := r.lastTick()
		if tick.Err != nil || tick.Outcome.Result != probe.Failure || tick.Outcome.Reason != probe.ReasonDeadline {
			t.Errorf("got %+v", tick)
		}
		if took := tick.End.Sub(tick.Start); took != 500*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
	bubble(t, "deadline as an error is a Failure", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		calls := 0
		r.cfg.Handler = probe.HandlerFunc(func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
			calls++
			<-ctx.Done()
			return probe.Outcome{}, fmt.Errorf("dial: %w", ctx.Err())
		})
		r.run().wait(600 * time.Millisecond)
		if tick := r.lastTick(); tick.Err != nil || tick.Outcome.Result != probe.Failure || calls != 1 {
			t.Errorf("%d calls, %+v", calls, tick)
		}
	})
}

func TestRequestAndOutcome(t *testing.T) {
	bubble(t, "long output is cut", func(t *testing.T) {
		r := newRig(t, probe.Readiness, probetest.Answer(probe.Failure, strings.Repeat("x", 11*1024))).run()
		if tick := r.lastTick(); len(tick.Outcome.Output) != probe.MaxOutput || tick.Err != nil {
			t.Errorf("%d bytes, error %v", len(tick.Outcome.Output), tick.Err)
		}
	})
	bubble(t, "details that are no object or too long are dropped", func(t *testing.T) {
		long := `{"a":"` + strings.Repeat("x", probe.MaxOutput) + `"}`
		for given, want := range map[string]string{
			`{"a": 1}`: `{"a": 1}`, `[1]`: "", `{"a":`: "", "": "", long: "", "{\"a\":\"\xff\"}": "{\"a\":\"\uFFFD\"}",
		} {
			r := newRig(t, probe.Readiness, probetest.Step{Outcome: probe.Outcome{Result: probe.Success, Details: given}}).run()
			if tick := r.lastTick(); tick.Outcome.Details != want || tick.Err != nil {
				t.Errorf("%.20q: got %.40q, error %v; want %q", given, tick.Outcome.Details, tick.Err, want)
			}
		}
	})
	bubble(t, "request of an attempt", func(t *testing.T) {
		r := newRig(t, probe.Readiness, failure, success)
		r.cfg.Target.Port = 8080
		r.run()
		r.become(func(s *worker.State) { s.PodIP = "10.0.0.2" })
		r.tick()
		calls := r.handler.Calls()
		want := probe.Request{
			Kind: probe.Readiness, Attempt: 1, Spec: r.cfg.Spec, LastResult: probe.Unknown,
			Target: probe.Target{Host: "10.0.0.1", Port: 8080}, PodIP: "10.0.0.1",
			Pod: r.cfg.Task.Pod, Container: r.cfg.Task.Container, ContainerID: "c1",
		}
		if diff := cmp.Diff(want, calls[0].Request); diff != "" {
			t.Errorf("first tick: %s", diff)
		}
		want.LastResult, want.PodIP, want.Target.Host = probe.Failure, "10.0.0.2", "10.0.0.2"
		if diff := cmp.Diff(want, calls[1].Request); diff != "" {
			t.Errorf("second tick: %s", diff)
		}
	})
	bubble(t, "panic is an error of the attempt, and tried again", func(t *testing.T) {
		r := newRig(t, probe.Readiness, success, probetest.Panic("ouch"), probetest.Panic("ouch"), probetest.Panic("ouch"), success).run()
		r.tick()
		r.wantCached(results.Success)
		r.wantCalls(4)
		if last := r.ticks[1]; last.Err == nil || last.Err.Error() != "the handler panicked: ouch" || probe.ReasonOf(last.Err) != probe.ReasonInternal || last.Attempts != 3 {
			t.Errorf("got %+v", last)
		}
		if want := []string{"Unhealthy: Readiness probe errored and resulted in unknown state: the handler panicked: ouch"}; !slices.Equal(r.events, want) {
			t.Errorf("events %q", r.events)
		}
	})
	bubble(t, "#223 panic is reported as a skipped tick, and changes nothing, kubelet", func(t *testing.T) {
		r := newRig(t, probe.Readiness, success, probetest.Panic("ouch"), failure)
		r.shared.Compat = kubelet
		r.run()
		r.tick()
		r.wantCached(results.Success)
		if got := r.skips(worker.SkipPanic); got != 1 {
			t.Errorf("%d panics counted", got)
		}
		r.tick()
		r.wantCached(results.Failure)
		r.wantCalls(3)
		r.wantEnded(false)
	})
	bubble(t, "tick without a free slot is skipped, and not retried", func(t *testing.T) {
		noSlot := probetest.Error(fmt.Errorf("pool: %w", probe.ErrNoSlot))
		r := newRig(t, probe.Readiness, success, noSlot, failure)
		r.cfg.Spec.ErrorPolicy = probe.CountAsFailure
		r.run().tick()
		r.wantCalls(2)
		r.wantCached(results.Success)
		if got := r.skips(worker.SkipNoSlot); got != 1 {
			t.Errorf("%d skipped ticks counted", got)
		}
		if got := r.sent(); len(got) > 0 {
			t.Errorf("events: %q", got)
		}
		if len(r.ticks) != 1 {
			t.Errorf("%d ticks observed, want 1", len(r.ticks))
		}
		r.tick()
		r.wantCached(results.Failure)
	})
}

func TestEvents(t *testing.T) {
	boom := probetest.Error(errBoom)
	for _, tc := range []struct {
		name string
		step probetest.Step
		want string // %s is the kind
	}{
		{"#222 error", boom, "Unhealthy: %s probe errored and resulted in unknown state: boom"},
		{"#222 error with a result", probetest.Step{Outcome: probe.Outcome{Result: probe.Failure}, Err: errBoom}, "Unhealthy: %s probe errored and resulted in failure state: boom"},
		{"failure", failure, "Unhealthy: %s probe failed: bad"},
		{"warning", warning, "ProbeWarning: %s probe warning: hm"},
		{"success", success, ""},
		{"#78 unknown", unknown, ""},
	} {
		each(t, tc.name, func(t *testing.T, kind probe.Kind) {
			r := newRig(t, kind, tc.step)
			r.cfg.Spec.FailureThreshold = 3
			r.run()
			var want []string
			if tc.want != "" {
				want = []string{fmt.Sprintf(tc.want, map[probe.Kind]string{
					probe.Liveness: "Liveness", probe.Readiness: "Readiness", probe.Startup: "Startup",
				}[kind])}
			}
			if diff := cmp.Diff(want, r.sent()); diff != "" {
				t.Error(diff)
			}
		})
	}
	bubble(t, "failure below the threshold has an event", func(t *testing.T) {
		r := newRig(t, probe.Readiness, failure)
		r.cfg.Spec.FailureThreshold = 3
		r.run().wait(3 * time.Second)
		if got := r.sent(); len(got) != 4 {
			t.Errorf("%d events, want 4: %q", len(got), got)
		}
	})
	bubble(t, "event of an unknown kind", func(t *testing.T) {
		if got := probe.Kind(66).Title(); got != "UNKNOWN" {
			t.Errorf("got %q", got)
		}
	})
}
