package probetest

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daeace23/prober/probe"
)

// HandlerUnderTest is a handler bound to several targets, for [HandlerSuite]. Good is required. The other
// handlers are nil if the situation cannot occur.
type HandlerUnderTest struct {
	// Good is bound to a target that answers quickly with a Success.
	Good probe.Handler
	// Hanging is bound to a target that accepts a request and never answers.
	Hanging probe.Handler
	// Flooding is bound to a target that returns a verdict with more than probe.MaxOutput bytes of output.
	Flooding probe.Handler
	// Erring always returns an error.
	Erring probe.Handler

	// Request is the request of every attempt. The suite sets Spec.Timeout, and Attempt if it is 0.
	Request probe.Request
	// Timeout is the timeout of attempts that are expected to time out; 0 means 200ms.
	Timeout time.Duration
	// Patience is the timeout of attempts that are expected to end earlier; 0 means 2m.
	Patience time.Duration
	// Slack is how long after a deadline or a cancellation Probe may return; 0 means 10s. A loaded machine
	// needs slack.
	Slack time.Duration
}

// HandlerSuite checks that a handler fulfills the contract of [probe.Handler]. newHandler is called once
// for each subtest, and must clean up with t.Cleanup.
func HandlerSuite(t *testing.T, newHandler func(t *testing.T) HandlerUnderTest) {
	cases := []struct {
		name string
		run  func(*testing.T, HandlerUnderTest)
	}{
		{"a good target is a success", testGood},
		{"a deadline is a failure and no error", testDeadline},
		{"an expired context is a failure and no error", testExpired},
		{"a cancelled attempt ends promptly", testCancel},
		{"attempts may run at the same time", testConcurrent},
		{"a hanging attempt delays no other", testIndependent},
		{"nothing is left running", testLeak},
		{"an error is not a verdict", testError},
		{"output is bounded", testOutput},
		{"the request is not modified", testRequest},
		{"tracing ends with the attempt", testTrace},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := newHandler(t)
			if h.Good == nil {
				t.Fatal("HandlerUnderTest.Good is required")
			}
			h.Timeout = cmp.Or(h.Timeout, 200*time.Millisecond)
			h.Patience = cmp.Or(h.Patience, 2*time.Minute)
			h.Slack = cmp.Or(h.Slack, 10*time.Second)
			c.run(t, h)
		})
	}
}

// probe calls handler once, with a deadline after timeout.
func (h HandlerUnderTest) probe(ctx context.Context, handler probe.Handler, timeout time.Duration) (probe.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req := h.Request
	req.Attempt = cmp.Or(req.Attempt, 1)
	req.Spec.Timeout = timeout
	return handler.Probe(ctx, req)
}

func (h HandlerUnderTest) wantSuccess(t *testing.T) {
	t.Helper()
	got, err := h.probe(t.Context(), h.Good, h.Patience)
	if err != nil || got.Result != probe.Success {
		t.Errorf("good target: got %v, output %q, error %v; want success", got.Result, got.Output, err)
	}
}

func testGood(t *testing.T, h HandlerUnderTest) {
	h.wantSuccess(t)
	h.wantSuccess(t)
}

func testDeadline(t *testing.T, h HandlerUnderTest) {
	if h.Hanging == nil {
		return
	}
	start := time.Now()
	got, err := h.probe(t.Context(), h.Hanging, h.Timeout)
	for errors.Is(err, probe.ErrNoSlot) && h.Timeout < h.Patience { // the machine is busy
		h.Timeout *= 2
		start = time.Now()
		got, err = h.probe(t.Context(), h.Hanging, h.Timeout)
	}
	took := time.Since(start)
	if err != nil || got.Result != probe.Failure {
		t.Errorf("hanging target: got %v, output %q, error %v; want failure and no error", got.Result, got.Output, err)
	}
	if took < h.Timeout*9/10 || took > h.Timeout+h.Slack {
		t.Errorf("hanging target: ended after %v; want the timeout, %v", took, h.Timeout)
	}
	h.wantSuccess(t)
}

func testExpired(t *testing.T, h HandlerUnderTest) {
	if h.Hanging == nil {
		return
	}
	start := time.Now()
	got, err := h.probe(t.Context(), h.Hanging, time.Nanosecond)
	if err != nil || got.Result != probe.Failure {
		t.Errorf("got %v, output %q, error %v; want failure and no error", got.Result, got.Output, err)
	}
	if took := time.Since(start); took > h.Slack {
		t.Errorf("ended after %v", took)
	}
}

func testCancel(t *testing.T, h HandlerUnderTest) {
	if h.Hanging == nil {
		return
	}
	for _, after := range []time.Duration{0, h.Timeout / 4} {
		ctx, cancel := context.WithCancel(t.Context())
		var cancelled atomic.Int64
		stop := func() {
			cancelled.Store(time.Now().UnixNano())
			cancel()
		}
		if after == 0 {
			stop()
		} else {
			time.AfterFunc(after, stop)
		}
		if got, err := h.probe(ctx, h.Hanging, h.Patience); err == nil && got.Result == probe.Success {
			t.Errorf("cancelled after %v: got success from a target that does not answer", after)
		}
		if late := time.Duration(time.Now().UnixNano() - cancelled.Load()); cancelled.Load() == 0 || late > h.Slack {
			t.Errorf("cancelled after %v: returned %v later", after, late)
		}
		cancel()
	}
	h.wantSuccess(t)
}

func testConcurrent(t *testing.T, h HandlerUnderTest) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 4 {
				h.wantSuccess(t)
			}
		})
	}
	wg.Wait()
}

func testIndependent(t *testing.T, h HandlerUnderTest) {
	if h.Hanging == nil {
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	var hanging, good sync.WaitGroup
	for range 4 {
		hanging.Go(func() { _, _ = h.probe(ctx, h.Hanging, h.Patience) })
		good.Go(func() { h.wantSuccess(t) })
	}
	good.Wait() // would take h.Patience if a hanging attempt delayed them
	if ctx.Err() != nil {
		t.Error("the test's own context ended first")
	}
	cancel()
	hanging.Wait()
}

func testLeak(t *testing.T, h HandlerUnderTest) {
	h.wantSuccess(t) // goroutines that the handler starts once and keeps are not leaks
	before := runtime.NumGoroutine()
	for range 8 {
		h.wantSuccess(t)
		if h.Hanging != nil {
			_, _ = h.probe(t.Context(), h.Hanging, h.Timeout/8)
		}
		if h.Erring != nil {
			_, _ = h.probe(t.Context(), h.Erring, h.Patience)
		}
	}
	// There is no way to wait for the end of other goroutines.
	for giveUp := time.Now().Add(h.Patience); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(giveUp) {
			stacks := make([]byte, 1<<16)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
		}
	}
}

func testError(t *testing.T, h HandlerUnderTest) {
	if h.Erring == nil {
		return
	}
	got, err := h.probe(t.Context(), h.Erring, h.Patience)
	if err == nil {
		t.Fatalf("got %v, output %q and no error; want an error", got.Result, got.Output)
	}
	if got.Result != probe.Unknown {
		t.Errorf("got %v beside error %q; want unknown", got.Result, err)
	}
	if probe.ReasonOf(err) == probe.ReasonDeadline {
		t.Errorf("error %q reads as a deadline, which is a failure", err)
	}
	h.wantSuccess(t)
}

func testOutput(t *testing.T, h HandlerUnderTest) {
	if h.Flooding == nil {
		return
	}
	got, err := h.probe(t.Context(), h.Flooding, h.Patience)
	if err != nil || got.Result == probe.Unknown {
		t.Errorf("got %v, error %v; want a verdict: longer output is cut, never an error", got.Result, err)
	}
	// A UTF-8 sequence is not split, so the output may be up to three bytes shorter.
	if n := len(got.Output); n > probe.MaxOutput || n < probe.MaxOutput-3 {
		t.Errorf("output of %d bytes; want %d", n, probe.MaxOutput)
	}
}

func testRequest(t *testing.T, h HandlerUnderTest) {
	if h.Request.Pod == nil {
		h.Request.Pod = &probe.Pod{Namespace: "suite", Name: "pod", UID: "uid", Labels: map[string]string{"a": "b"}}
	}
	if h.Request.Container == nil {
		h.Request.Container = &probe.Container{Name: "c", Ports: []probe.Port{{Name: "p", Number: 1}}}
	}
	pod, container := *h.Request.Pod, *h.Request.Container
	pod.Labels = map[string]string{}
	maps.Copy(pod.Labels, h.Request.Pod.Labels)
	container.Ports = append([]probe.Port{}, container.Ports...)
	h.wantSuccess(t)
	if len(pod.Labels)+len(h.Request.Pod.Labels) > 0 && !reflect.DeepEqual(pod.Labels, h.Request.Pod.Labels) {
		t.Errorf("labels became %v; they were %v", h.Request.Pod.Labels, pod.Labels)
	}
	if len(container.Ports) > 0 && !reflect.DeepEqual(container.Ports, h.Request.Container.Ports) {
		t.Errorf("ports became %v; they were %v", h.Request.Container.Ports, container.Ports)
	}
}

func testTrace(t *testing.T, h HandlerUnderTest) {
	var ended, late atomic.Bool
	h.Request.Trace = func(probe.TraceEvent) {
		if ended.Load() {
			late.Store(true)
		}
	}
	h.wantSuccess(t)
	if h.Hanging != nil {
		_, _ = h.probe(t.Context(), h.Hanging, h.Timeout)
	}
	ended.Store(true)
	h.Request.Trace = nil
	h.wantSuccess(t)
	if late.Load() {
		t.Error("an event was traced after Probe had returned")
	}
}
