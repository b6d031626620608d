package metrics

import (
	"iter"
	"sync/atomic"

	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// state packs the small integers of a series into 64 bits, each in a [field]. The kind and the order are
// read-only after init.
type state struct{ bits atomic.Uint64 }

// field is the bit range of an integer in a [state].
type field struct{ shift, width uint64 }

var (
	kindField  = field{0, 2}
	endedField = field{2, 1}                // the first worker has ended; guarded by index.mu
	gateField  = field{3, 5}                // gate of the first worker, which owns it; successor has the gates of the others
	shownField = field{8, 5}                // the gate that a worker has reported last
	ruleField  = field{13, states.RuleBits} // the states.Rule of the worker that has begun last; owned by that worker
	orderField = field{18, 32}
)

func (f field) mask() uint64 { return (1<<f.width - 1) << f.shift }

func (f field) get(bits uint64) uint64 { return bits & f.mask() >> f.shift }

// put returns bits with f set to value.
func (f field) put(bits, value uint64) uint64 { return bits&^f.mask() | value<<f.shift&f.mask() }

// init sets the state of a probe without ticks. made is the number of series made so far.
func (s *state) init(info *worker.Info, made uint) {
	bits := ruleField.put(kindField.put(0, uint64(info.Kind)), uint64(states.First(info)))
	s.bits.Store(orderField.put(bits, uint64(made)))
}

func (s *state) field(f field) uint64 { return f.get(s.bits.Load()) }

// change replaces the bits of s by the result of update. update may be called more than once.
func (s *state) change(update func(bits uint64) uint64) {
	for {
		bits := s.bits.Load()
		if next := update(bits); next == bits || s.bits.CompareAndSwap(bits, next) {
			return
		}
	}
}

func (s *state) set(f field, value uint64) {
	s.change(func(bits uint64) uint64 { return f.put(bits, value) })
}

func (s *state) kind() probe.Kind { return probe.Kind(s.field(kindField)) }

func (s *state) stripe() int { return int(s.field(orderField) % stripes) }

func (s *state) ended() bool { return s.field(endedField) != 0 }

// ticked sets the state after a tick that observers get.
func (s *state) ticked(t *worker.Tick) {
	gate := worker.Open
	if !t.Quarantined.IsZero() {
		gate = worker.Quarantined
	}
	s.change(func(bits uint64) uint64 {
		return shownField.put(ruleField.put(bits, uint64(states.Rule(ruleField.get(bits)).Tick(t))), uint64(gate))
	})
}

// passed sets the state after a tick without attempts, under gate.
func (s *state) passed(gate worker.Gate) {
	s.change(func(bits uint64) uint64 {
		return shownField.put(ruleField.put(bits, uint64(states.Rule(ruleField.get(bits)).Gated(gate))), uint64(gate))
	})
}

// isAfter reports whether the series of s was made after the series of o.
func (s *state) isAfter(o *state) bool {
	age := s.field(orderField) - o.field(orderField)
	return int32(age) > 0 // the order overflows, after four billion series
}

// shown is the state of a probe in a scrape. Pods with the same name have the same labels, so it is the
// state of the newest one.
type shown struct {
	*series // has the labels
	state   states.State
	gate    worker.Gate
}

// show returns the state to show for the probes of one kind in container, and false if there are none.
func show(container []*series, kind probe.Kind) (shown, bool) {
	var newest *series
	for _, s := range container {
		if s.kind() == kind && (newest == nil || s.isAfter(&newest.state)) {
			newest = s
		}
	}
	if newest == nil {
		return shown{}, false
	}
	bits := newest.bits.Load()
	gate := worker.Gate(shownField.get(bits))
	return shown{newest, states.Rule(ruleField.get(bits)).Under(gate), gate}, true
}

// shown yields the states of all probes, grouped by container.
func (x *index) shown() iter.Seq[shown] {
	return func(yield func(shown) bool) {
		for container := range x.containers() {
			for _, kind := range probe.Kinds {
				if s, ok := show(container, kind); ok && !yield(s) {
					return
				}
			}
		}
	}
}

// sortedStates are all states in alphabetical order.
var sortedStates = [...]states.State{states.Failure, states.Success, states.Unknown, states.Warning}

// values yields success and failure, and one of the rarer states only if the probe is in it. The value is 1
// for the probe's state, 0 for the others.
func (s *shown) values(yield func(state string, value float64) bool) {
	for _, state := range sortedStates {
		rare := state == states.Unknown || state == states.Warning
		if (!rare || s.state == state) && !yield(state.String(), oneIf(s.state == state)) {
			return
		}
	}
}
