// Package probetest helps to test handlers and their callers. It has a scripted handler, and a suite that
// every handler must pass.
//
// Everything may be used inside a testing/synctest bubble, if it is also created inside that bubble.
package probetest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/daeace23/prober/probe"
)

// Step is the behavior of a [Handler] in one call: it waits, and then returns Outcome and Err.
type Step struct {
	// Delay is the time to wait. If ctx ends before or at the end of Delay, the call ends as with Hang,
	// unless Deaf is set.
	Delay time.Duration
	// Hang waits until ctx ends. After a deadline the call returns [probe.TimedOut], otherwise the cause of
	// ctx.
	Hang bool
	// Deaf makes Delay ignore ctx, like a broken handler.
	Deaf bool
	// Panic is the value of a panic after Delay; nil for none.
	Panic any

	Outcome probe.Outcome
	Err     error
}

// Answer returns a step that returns a result and an output at once.
func Answer(r probe.Result, output string) Step {
	return Step{Outcome: probe.Outcome{Result: r, Output: output}}
}

// Error returns a step that returns err at once.
func Error(err error) Step { return Step{Err: err} }

// Hang returns a step that waits until ctx ends.
func Hang() Step { return Step{Hang: true} }

// Panic returns a step that panics with v.
func Panic(v any) Step { return Step{Panic: v} }

// After returns s with a Delay of d.
func (s Step) After(d time.Duration) Step {
	s.Delay = d
	return s
}

// Call is one call of a [Handler].
type Call struct {
	Start   time.Time
	Timeout time.Duration // time from Start to the deadline of ctx; 0 without a deadline
	Request probe.Request
}

// Handler is a [probe.Handler] that follows a script, with one step for each call, and repeats the last
// step. It records every call. It is safe for concurrent use.
type Handler struct {
	mu     sync.Mutex
	steps  []Step
	calls  []Call
	active int
	peak   int
}

var _ probe.Handler = (*Handler)(nil)

// NewHandler returns a handler that follows steps. Without steps it returns Success.
func NewHandler(steps ...Step) *Handler {
	h := new(Handler)
	h.Then(steps...)
	return h
}

// Then replaces the rest of the script by steps.
func (h *Handler) Then(steps ...Step) {
	if len(steps) == 0 {
		steps = []Step{Answer(probe.Success, "")}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps = slices.Clone(steps)
}

// Calls returns the calls so far, in the order of their start.
func (h *Handler) Calls() []Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls)
}

// Count returns the number of calls so far.
func (h *Handler) Count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.calls)
}

// Active returns the number of calls that have not ended yet.
func (h *Handler) Active() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.active
}

// Peak returns the largest number of calls that ran at the same time.
func (h *Handler) Peak() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.peak
}

// Probe implements [probe.Handler]: it runs the next step of the script.
func (h *Handler) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	step := h.begin(ctx, req)
	defer h.end()
	if step.Hang {
		<-ctx.Done()
		return ended(ctx, req)
	}
	if step.Delay > 0 && !wait(ctx, step) {
		return ended(ctx, req)
	}
	if step.Panic != nil {
		panic(step.Panic)
	}
	return step.Outcome, step.Err
}

func (h *Handler) begin(ctx context.Context, req probe.Request) Step {
	call := Call{Start: time.Now(), Request: req}
	if deadline, ok := ctx.Deadline(); ok {
		call.Timeout = deadline.Sub(call.Start)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, call)
	h.active++
	h.peak = max(h.peak, h.active)
	step := h.steps[0]
	if len(h.steps) > 1 {
		h.steps = h.steps[1:]
	}
	return step
}

func (h *Handler) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.active--
}

// wait waits for step.Delay, and returns false if ctx ends first.
func wait(ctx context.Context, step Step) bool {
	if step.Deaf {
		ctx = context.WithoutCancel(ctx)
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Add(step.Delay).Before(deadline) {
		<-ctx.Done() // a select between two ready cases is random
		return false
	}
	timer := time.NewTimer(step.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ended returns the result of a call whose ctx has ended first.
func ended(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	if ctx.Err() == context.DeadlineExceeded {
		return probe.TimedOut(req.Spec.Timeout), nil
	}
	return probe.Outcome{}, context.Cause(ctx)
}
