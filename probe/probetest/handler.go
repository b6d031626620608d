// Package probetest helps to test handlers and what calls them: a handler that
// follows a script, a suite that every handler must pass, and a network of pipes.
//
// Everything in it may be used inside a testing/synctest bubble, provided that it
// is also made inside that bubble.
package probetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/daeace23/prober/probe"
)

// Step is what a [Handler] does at one call: wait, then answer.
type Step struct {
	// Delay is waited before the answer. When ctx ends first, or its deadline is at the
	// same moment, the call ends as Hang says, unless Deaf is set.
	Delay time.Duration
	// Hang waits until ctx ends: a deadline then gives [probe.TimedOut], anything
	// else the error of ctx.
	Hang bool
	// Deaf makes Delay ignore ctx, as a broken handler would.
	Deaf bool
	// Panic, when not nil, is panicked with after Delay.
	Panic any
	// Outcome and Err are the answer.
	Outcome probe.Outcome
	Err     error
}

// Answer is the step that answers at once with a result and an output.
func Answer(r probe.Result, output string) Step {
	return Step{Outcome: probe.Outcome{Result: r, Output: output}}
}

// Error is the step that could not determine a result.
func Error(err error) Step { return Step{Err: err} }

// Hang is the step that waits for the end of its ctx.
func Hang() Step { return Step{Hang: true} }

// Panic is the step that panics with v.
func Panic(v any) Step { return Step{Panic: v} }

// After returns s with a delay of d in front.
func (s Step) After(d time.Duration) Step {
	s.Delay = d
	return s
}

// Call is one call that a [Handler] received.
type Call struct {
	Start   time.Time
	Timeout time.Duration // from Start to the deadline of ctx; 0 without one
	Request probe.Request
}

// Handler is a [probe.Handler] that follows a script, one step a call; the last
// step is repeated. It records every call. Handlers are safe for concurrent use.
type Handler struct {
	mu     sync.Mutex
	steps  []Step
	calls  []Call
	active int
	peak   int
	called chan struct{} // closed and replaced at each call
}

var _ probe.Handler = (*Handler)(nil)

// NewHandler returns a handler that follows steps. Without steps it answers
// Success.
func NewHandler(steps ...Step) *Handler {
	h := &Handler{called: make(chan struct{})}
	h.Then(steps...)
	return h
}

// Then replaces what is left of the script: the next call takes the first of steps.
func (h *Handler) Then(steps ...Step) {
	if len(steps) == 0 {
		steps = []Step{Answer(probe.Success, "")}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps = slices.Clone(steps)
}

// Calls returns the calls so far, in the order in which they began.
func (h *Handler) Calls() []Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls)
}

// Count returns how many calls have begun.
func (h *Handler) Count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.calls)
}

// Active returns how many calls have not ended yet.
func (h *Handler) Active() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.active
}

// Peak returns the greatest number of calls that ran at the same time.
func (h *Handler) Peak() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.peak
}

// Await blocks until n calls have begun since the handler was made, or ctx ends.
func (h *Handler) Await(ctx context.Context, n int) error {
	for {
		h.mu.Lock()
		count, called := len(h.calls), h.called
		h.mu.Unlock()
		if count >= n {
			return nil
		}
		select {
		case <-called:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d calls: %w", count, n, context.Cause(ctx))
		}
	}
}

// Probe takes the next step of the script.
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
	close(h.called)
	h.called = make(chan struct{})
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

// wait waits step.Delay and reports whether ctx left it the time.
func wait(ctx context.Context, step Step) bool {
	if step.Deaf {
		ctx = context.WithoutCancel(ctx)
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Add(step.Delay).Before(deadline) {
		<-ctx.Done() // of two that are ready a select would take any
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

// ended is the answer of a call whose ctx ended first.
func ended(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	if ctx.Err() == context.DeadlineExceeded {
		return probe.TimedOut(req.Spec.Timeout), nil
	}
	return probe.Outcome{}, context.Cause(ctx)
}
