package engine

import (
	"slices"
	"testing"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// naive decides by all results since the worker was made. The decided result is the last one that ended a
// run as long as its threshold.
type naive struct {
	kind    probe.Kind
	spec    probe.Spec
	alone   bool             // NoRestart: the container is not restarted
	results []results.Result // since the last hold
	held    bool
	decided []results.Result
}

func (n *naive) add(r results.Result) {
	n.results = append(n.results, r)
	run := 0
	for _, old := range slices.Backward(n.results) {
		if old != r {
			break
		}
		run++
	}
	threshold := map[results.Result]int{results.Success: n.spec.SuccessThreshold, results.Failure: n.spec.FailureThreshold}[r]
	if run < threshold {
		return
	}
	n.decided = append(n.decided, r)
	if r == results.Failure && n.alone {
		return
	}
	if n.kind == probe.Startup || n.kind == probe.Liveness && r == results.Failure {
		n.held, n.results = true, nil
	}
}

// FuzzFold compares fold with the naive model. Each byte of answers is a tick; an odd byte is a failure.
func FuzzFold(f *testing.F) {
	f.Add(uint8(0), uint8(1), uint8(3), false, []byte{0, 1, 1, 1})
	f.Add(uint8(1), uint8(3), uint8(1), false, []byte{0, 0, 0, 0, 0, 1})
	f.Add(uint8(2), uint8(1), uint8(3), false, []byte{1, 1, 0})
	f.Add(uint8(0), uint8(1), uint8(3), true, []byte{0, 1, 1, 1, 1, 0})
	f.Add(uint8(2), uint8(1), uint8(2), true, []byte{1, 1, 1, 0})
	f.Fuzz(func(t *testing.T, kind, successes, failures uint8, noRestart bool, answers []byte) {
		model := naive{
			alone: noRestart,
			kind:  probe.Kinds[int(kind)%len(probe.Kinds)],
			spec:  probe.Spec{SuccessThreshold: max(int(successes), 1), FailureThreshold: max(int(failures), 1)},
		}
		state := run{last: results.Success}
		var decided []results.Result
		for _, a := range answers {
			r := results.Success + results.Result(a%2)
			model.add(r)
			next, _, ok := fold(state, model.kind, model.spec, noRestart, r)
			if ok {
				decided = append(decided, r)
			}
			if next.hold != model.held {
				t.Fatalf("on hold: %v, want %v", next.hold, model.held)
			}
			if next.hold && next.length != 0 {
				t.Fatalf("a hold leaves a run of %d", next.length)
			}
			next.hold, model.held = false, false // as a new container would
			state = next
		}
		if !slices.Equal(decided, model.decided) {
			t.Fatalf("decided %v, want %v", decided, model.decided)
		}
	})
}

func BenchmarkFold(b *testing.B) {
	spec := probe.Spec{SuccessThreshold: 2, FailureThreshold: 3}
	state := run{last: results.Success}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		state, _, _ = fold(state, probe.Readiness, spec, false, results.Success+results.Result(i>>2&1))
		i++
	}
}
