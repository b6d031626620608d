package metrics

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// noReason is the label of failures for which the handler gave no reason.
const noReason = "none"

// failureReasons are the values of the reason label of failures: [reasons] and noReason.
var failureReasons = append(reasonWords(), noReason)

// sortedFailures are the indexes of failureReasons in alphabetical order of the reasons.
var sortedFailures = func() []int {
	all := make([]int, len(failureReasons))
	for i := range all {
		all[i] = i
	}
	slices.SortFunc(all, func(a, b int) int { return strings.Compare(failureReasons[a], failureReasons[b]) })
	return all
}()

// failureOf returns the index in failureReasons of the reason why t failed, and false if t did not fail.
func failureOf(t *worker.Tick) (reason int, is bool) {
	switch {
	case t.Err != nil:
		return reasonIndex(probe.ReasonOf(t.Err)), true
	case !failed(t):
		return 0, false
	case t.Outcome.Reason == "":
		return len(failureReasons) - 1, true
	default:
		return reasonIndex(t.Outcome.Reason), true
	}
}

// failureCount counts the failures of a probe for one reason. It is a node of a linked list.
type failureCount struct {
	next   *failureCount // read-only
	count  atomic.Uint32
	reason uint8 // index of failureReasons; read-only
}

// failures counts the failures of a probe by reason. It is a linked list, because most probes have few
// reasons.
type failures struct{ first atomic.Pointer[failureCount] }

func (f *failures) add(reason int, n uint32) {
	for {
		first := f.first.Load()
		for c := first; c != nil; c = c.next {
			if int(c.reason) == reason {
				c.count.Add(n)
				return
			}
		}
		c := &failureCount{reason: uint8(reason), next: first}
		c.count.Store(n)
		if f.first.CompareAndSwap(first, c) {
			return
		}
	}
}

// addTo adds the failures to the series s.
func (f *failures) addTo(s *series) {
	for c := f.first.Load(); c != nil; c = c.next {
		s.ensureRest().failures.add(int(c.reason), c.count.Load())
	}
}

// failureSums are the summed failures of series with the same labels, by index in failureReasons.
type failureSums [len(reasons) + 1]uint64

func (f *failureSums) reset() { *f = failureSums{} }

func (f *failureSums) isSet() bool { return *f != failureSums{} }

func (f *failureSums) add(s *series) {
	r := s.rest.Load()
	if r == nil {
		return
	}
	for c := r.failures.first.Load(); c != nil; c = c.next {
		f[c.reason] += uint64(c.count.Load())
	}
}
