package states

import (
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// unknownAfter is how many ticks in a row without a verdict make a state unknown.
const unknownAfter = 3

// Rule is the rule of the states: the state of one probe, and what its next state depends on, in
// [RuleBits] bits. A probe without ticks has the zero value. Every tick, and every gate, makes the
// next one of it.
type Rule uint8

// RuleBits is how many bits a [Rule] has.
const RuleBits = 5

const (
	stateBits Rule = 3      // the State
	known     Rule = 1 << 2 // a tick has decided something
	blindBits      = 3      // the shift of the ticks in a row without a verdict, at most unknownAfter
)

// State returns the state.
func (r Rule) State() State { return State(r & stateBits) }

// Decided reports whether a tick has decided a result.
func (r Rule) Decided() bool { return r&known != 0 }

// Blind reports whether three ticks in a row, or more, had no verdict.
func (r Rule) Blind() bool { return r>>blindBits >= unknownAfter }

func (r Rule) with(s State) Rule { return r&^stateBits | Rule(s) }

// Tick returns the rule after a tick. A container that is new has an initial result that no attempt has
// decided: it neither makes a state known nor ends a failure.
func (r Rule) Tick(t *worker.Tick) Rule {
	if !t.Counted {
		return r.Lost()
	}
	r &= stateBits | known
	switch decided := t.Run >= t.Threshold; {
	case !decided && r.Decided() && t.After == results.Failure:
		return r.with(Failure)
	case !decided:
		return r
	}
	r |= known
	switch {
	case t.After == results.Failure:
		return r.with(Failure)
	case t.After != results.Success:
		return r.with(Unknown)
	case t.Err == nil && t.Outcome.Result == probe.Warning:
		return r.with(Warning)
	default:
		return r.with(Success)
	}
}

// Lost returns the rule after a tick without a verdict.
func (r Rule) Lost() Rule {
	if !r.Blind() {
		r += 1 << blindBits
	}
	if r.Blind() {
		return r.with(Unknown)
	}
	return r
}

// Gated returns the rule after a tick that made no attempt: a container that does not run has failed.
func (r Rule) Gated(gate worker.Gate) Rule {
	if gate == worker.NotRunning && r.Decided() {
		return r.with(Failure)
	}
	return r
}

// Skipped returns the rule after ticks that were skipped: a handler that panics gives no verdict.
func (r Rule) Skipped(reason worker.SkipReason, ticks int) Rule {
	if reason != worker.SkipPanic {
		return r
	}
	for range min(ticks, unknownAfter) {
		r = r.Lost()
	}
	return r
}
