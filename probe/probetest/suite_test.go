package probetest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// model is a handler that fulfills the contract.
func model(t *testing.T) probetest.HandlerUnderTest {
	return probetest.HandlerUnderTest{
		Good:     probetest.NewHandler(),
		Hanging:  probetest.NewHandler(probetest.Hang()),
		Flooding: probetest.NewHandler(probetest.Answer(probe.Failure, strings.Repeat("x", probe.MaxOutput))),
		Erring:   probetest.NewHandler(probetest.Error(errors.New("broken"))),
		Timeout:  20 * time.Millisecond,
	}
}

func TestHandlerSuitePasses(t *testing.T) { probetest.HandlerSuite(t, model) }

// breaks has handlers that break the contract in one way, with the subtest that must fail.
var breaks = map[string]struct {
	edit    func(*probetest.HandlerUnderTest)
	subtest string
}{
	"good fails": {func(h *probetest.HandlerUnderTest) {
		h.Good = probetest.NewHandler(probetest.Answer(probe.Failure, ""))
	}, "a_good_target_is_a_success"},
	"deadline is an error": {func(h *probetest.HandlerUnderTest) {
		h.Hanging = probe.HandlerFunc(func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
			<-ctx.Done()
			return probe.Outcome{}, ctx.Err()
		})
	}, "a_deadline_is_a_failure_and_no_error"},
	"deaf": {func(h *probetest.HandlerUnderTest) {
		h.Slack = 100 * time.Millisecond
		h.Hanging = probetest.NewHandler(probetest.Step{Delay: 300 * time.Millisecond, Deaf: true, Outcome: probe.Outcome{Result: probe.Failure}})
	}, "a_cancelled_attempt_ends_promptly"},
	"one at a time": {func(h *probetest.HandlerUnderTest) {
		turn := make(chan struct{}, 1)
		serial := func(h probe.Handler) probe.Handler {
			return probe.HandlerFunc(func(ctx context.Context, req probe.Request) (probe.Outcome, error) {
				select {
				case turn <- struct{}{}:
					defer func() { <-turn }()
				case <-ctx.Done():
					return probe.Outcome{}, ctx.Err()
				}
				return h.Probe(ctx, req)
			})
		}
		h.Patience = 200 * time.Millisecond
		h.Good, h.Hanging = serial(probetest.NewHandler(probetest.Answer(probe.Success, "").After(10*time.Millisecond))), serial(h.Hanging)
	}, "a_hanging_attempt_delays_no_other"},
	"leak": {func(h *probetest.HandlerUnderTest) {
		h.Patience = 500 * time.Millisecond
		h.Good = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
			go func() { select {} }()
			return probe.Outcome{Result: probe.Success}, nil
		})
	}, "nothing_is_left_running"},
	"error with a verdict": {func(h *probetest.HandlerUnderTest) {
		h.Erring = probetest.NewHandler(probetest.Step{Outcome: probe.Outcome{Result: probe.Failure}, Err: errors.New("broken")})
	}, "an_error_is_not_a_verdict"},
	"error is a deadline": {func(h *probetest.HandlerUnderTest) {
		h.Erring = probetest.NewHandler(probetest.Error(context.DeadlineExceeded))
	}, "an_error_is_not_a_verdict"},
	"flood": {func(h *probetest.HandlerUnderTest) {
		h.Flooding = probetest.NewHandler(probetest.Answer(probe.Success, strings.Repeat("x", probe.MaxOutput+1)))
	}, "output_is_bounded"},
	"meddling": {func(h *probetest.HandlerUnderTest) {
		h.Good = probe.HandlerFunc(func(_ context.Context, req probe.Request) (probe.Outcome, error) {
			if req.Pod != nil {
				req.Pod.Labels["a"] = "c"
			}
			return probe.Outcome{Result: probe.Success}, nil
		})
	}, "the_request_is_not_modified"},
	"late trace": {func(h *probetest.HandlerUnderTest) {
		var tracer probe.Tracer
		h.Good = probe.HandlerFunc(func(_ context.Context, req probe.Request) (probe.Outcome, error) {
			if req.Trace == nil {
				tracer.Emit(probe.TraceEvent{Name: "late"})
			}
			tracer = req.Trace
			return probe.Outcome{Result: probe.Success}, nil
		})
	}, "tracing_ends_with_the_attempt"},
}

// TestHandlerSuiteCatches runs the suite on broken handlers in a child process, because a failing subtest
// would fail this test.
func TestHandlerSuiteCatches(t *testing.T) {
	if name, ok := os.LookupEnv("PROBETEST_BREAK"); ok {
		probetest.HandlerSuite(t, func(t *testing.T) probetest.HandlerUnderTest {
			h := model(t)
			breaks[name].edit(&h)
			return h
		})
		return
	}
	for name, b := range breaks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHandlerSuiteCatches$/^"+b.subtest+"$")
			child.Env = append(os.Environ(), "PROBETEST_BREAK="+name)
			out, err := child.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestHandlerSuiteCatches/"+b.subtest) {
				t.Errorf("the suite has passed: %v\n%s", err, out)
			}
		})
	}
}
