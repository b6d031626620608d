package states

import (
	"strings"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// unknownAfter is how many ticks in a row without a verdict make a state unknown.
const unknownAfter = 3

// tracked is the state of one probe. The probe's ticks own it.
type tracked struct {
	tracker *Tracker
	info    worker.Info
	state   State
	since   time.Time
	known   bool // a tick has decided something
	blind   int  // ticks in a row without a verdict
	ended   bool // the decided result became a failure without an attempt; Gated says why
}

var (
	_ worker.GateObserver     = (*tracked)(nil)
	_ worker.DecisionObserver = (*tracked)(nil)
)

// Tick implements [worker.ProbeObserver].
func (p *tracked) Tick(t *worker.Tick) {
	p.info.Handler = t.Handler
	if next := p.next(t); next != p.state {
		reason, text := causeOf(t)
		p.become(next, t.End, reason, text)
	}
}

// next returns the state after a tick. A container that is new has an initial result that no attempt
// has decided: it neither makes a state known nor ends a failure.
func (p *tracked) next(t *worker.Tick) State {
	if !t.Counted {
		if p.blind++; p.blind >= unknownAfter {
			return Unknown
		}
		return p.state
	}
	p.blind = 0
	switch decided := t.Run >= t.Threshold; {
	case !decided && p.known && t.After == results.Failure:
		return Failure
	case !decided:
		return p.state
	}
	p.known = true
	switch {
	case t.After == results.Failure:
		return Failure
	case t.After != results.Success:
		return Unknown
	case t.Err == nil && t.Outcome.Result == probe.Warning:
		return Warning
	default:
		return Success
	}
}

// Decided implements [worker.DecisionObserver]. A failure counts unless the pod is being deleted, which
// the call of Gated after it tells.
func (p *tracked) Decided(r results.Result) { p.ended = p.known && r == results.Failure }

// Gated implements [worker.GateObserver].
func (p *tracked) Gated(gate worker.Gate) {
	ended := p.ended
	p.ended = false
	if ended && gate == worker.NotRunning && p.state != Failure {
		p.become(Failure, time.Now(), string(results.NotRunning), "the container does not run")
	}
}

// Skipped implements [worker.ProbeObserver].
func (*tracked) Skipped(worker.SkipReason, int) {}

// Close implements [worker.ProbeObserver].
func (p *tracked) Close() {
	p.tracker.currents.forget(p)
	if p.known {
		p.tracker.tell(&Change{Info: p.info, From: p.state, Since: p.since, Time: time.Now(), Removed: true})
	}
}

func (p *tracked) become(next State, at time.Time, reason, text string) {
	c := Change{Info: p.info, From: p.state, To: next, Since: p.since, Time: at, Reason: reason, Text: text}
	p.state, p.since = next, at
	p.tracker.currents.set(p)
	p.tracker.tell(&c)
}

// causeOf returns the reason and the text of a tick.
func causeOf(t *worker.Tick) (reason, text string) {
	if t.Err != nil {
		return string(probe.ReasonOf(t.Err)), clip(t.Err.Error())
	}
	return string(t.Outcome.Reason), clip(t.Outcome.Output)
}

// clip returns at most [MaxText] bytes of text. It copies them: a handler may use its buffer again.
func clip(text string) string {
	if len(text) > MaxText {
		return strings.ToValidUTF8(text[:MaxText-len("…")], "") + "…"
	}
	return strings.Clone(text)
}
