package states

import (
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// unknownAfter is the number of consecutive ticks without a verdict after which a state is unknown.
const unknownAfter = 3

// Rule is the state machine of one probe: its state, and the inputs of its next state, in [RuleBits] bits.
// A probe without ticks has the [First] one. Every tick and every gate returns the next Rule.
type Rule uint8

// RuleBits is the number of bits of a [Rule].
const RuleBits = 5

const (
	stateBits  Rule = 3      // the State
	decidedBit Rule = 1 << 2 // a tick has decided something
	blindBits       = 3      // shift of the number of consecutive ticks without a verdict, at most unknownAfter
)

// First returns the rule of a probe without ticks. Its state is the initial one of the probe's spec.
func First(i *worker.Info) Rule {
	switch i.Initial {
	case probe.Success:
		return Rule(Success)
	case probe.Failure:
		return Rule(Failure)
	default:
		return 0
	}
}

// State returns the state.
func (r Rule) State() State { return State(r & stateBits) }

// Decided reports whether a tick has decided a result.
func (r Rule) Decided() bool { return r&decidedBit != 0 }

// Blind reports whether the last three ticks or more had no verdict.
func (r Rule) Blind() bool { return r>>blindBits >= unknownAfter }

// Under returns the state of a probe behind a gate: the forced one of ForcedUp and ForcedDown, otherwise State.
func (r Rule) Under(gate worker.Gate) State {
	switch gate {
	case worker.ForcedUp:
		return Success
	case worker.ForcedDown:
		return Failure
	default:
		return r.State()
	}
}

func (r Rule) with(s State) Rule { return r&^stateBits | Rule(s) }

// Tick returns the rule after a tick. No attempt has decided the initial result of a new container. It leaves
// the states unknown and failure as they are.
func (r Rule) Tick(t *worker.Tick) Rule {
	if !t.Counted {
		return r.Lost()
	}
	r &= stateBits | decidedBit
	switch decided := t.Run >= t.Threshold; {
	case !decided && r.Decided() && t.After == results.Failure:
		return r.with(Failure)
	case !decided:
		return r
	}
	r |= decidedBit
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

// Gated returns the rule after a tick without an attempt. A container that is not running has failed.
func (r Rule) Gated(gate worker.Gate) Rule {
	if gate == worker.NotRunning && r.Decided() {
		return r.with(Failure)
	}
	return r
}

// Skipped returns the rule after skipped ticks. A handler that panics gives no verdict.
func (r Rule) Skipped(reason worker.SkipReason, ticks int) Rule {
	if reason != worker.SkipPanic {
		return r
	}
	for range min(ticks, unknownAfter) {
		r = r.Lost()
	}
	return r
}
