package worker

import (
	"slices"
	"testing"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// naive decides by looking at all results since the worker was made: the decided
// result is the last one that ended a run of its threshold's length.
type naive struct {
	kind    probe.Kind
	spec    probe.Spec
	alone   bool             // nobody restarts the container
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

// FuzzFold holds fold against the naive model. Each byte of answers is one tick:
// odd is a failure.
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
			r := results.Result(a % 2)
			model.add(r)
			next, ok := fold(state, model.kind, model.spec, noRestart, r)
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
		state, _ = fold(state, probe.Readiness, spec, false, results.Result(i>>2&1))
		i++
	}
}

// still is a container in one state.
type still State

func (s still) State() State { return State(s) }

// never is a scheduler whose timers do not fire.
type never struct{}

func (never) NewTimer(func()) Timer { return never{} }
func (never) Reset(time.Duration)   {}
func (never) Stop()                 {}

// TestLastWords looks at what a worker decides in the very tick in which it ends: the
// end removes it from the cache, so that it can not be seen from outside.
func TestLastWords(t *testing.T) {
	running := State{Found: true, ContainerID: "c", Running: true, StartedAt: time.Now()}
	deleting, terminated, failed := running, running, running
	deleting.Deleting = true
	terminated.Running = false
	failed.PodEnded = true
	for _, tc := range []struct {
		name  string
		kinds []probe.Kind
		state State
		want  results.Result
		set   bool
	}{
		{"#26 the pod has failed: nothing is set", probe.Kinds[:], failed, 0, false},
		{"#27 the pod is being deleted: Success", []probe.Kind{probe.Liveness, probe.Startup}, deleting, results.Success, true},
		{"#30 terminated for good: Failure", probe.Kinds[:], terminated, results.Failure, true},
		{"#63 terminated for good: Failure", probe.Kinds[:], terminated, results.Failure, true},
	} {
		for _, kind := range tc.kinds {
			t.Run(tc.name+"/"+kind.String(), func(t *testing.T) {
				shared := Shared{Scheduler: never{}}
				for _, k := range probe.Kinds {
					shared.Results[k] = results.New(k)
				}
				w := New(&shared, Config{
					Info: Info{Kind: kind}, Spec: probe.Spec{Period: time.Second, SuccessThreshold: 1, FailureThreshold: 1},
					Container: &Container{Source: still(tc.state)},
				})
				w.Start()
				defer w.Stop()
				if more := w.tick(time.Now()); more {
					t.Error("the worker goes on")
				}
				if got, set := shared.Results[kind].Get("c"); got != tc.want || set != tc.set {
					t.Errorf("cache: %v, %v; want %v, %v", got, set, tc.want, tc.set)
				}
			})
		}
	}
}
