package engine

import (
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// run counts consecutive equal results, which the thresholds apply to.
type run struct {
	length int
	last   results.Result
	hold   bool // no probing until the container ID changes
}

// fold adds a result to r. It returns the new run, the threshold for the result, and whether the run has
// reached it: then the result is the decided result. It implements the kubelet's threshold rule, and is a
// pure function. noRestart is [worker.Task].NoRestart.
func fold(r run, kind probe.Kind, spec probe.Spec, noRestart bool, result results.Result) (next run, threshold int, decided bool) {
	next = r
	if r.last == result {
		next.length++
	} else {
		next.last, next.length = result, 1
	}
	threshold = spec.SuccessThreshold
	if result == results.Failure {
		threshold = spec.FailureThreshold
	}
	if next.length < threshold {
		return next, threshold, false
	}
	if holds(kind, noRestart, result) {
		next.hold, next.length = true, 0
	}
	return next, threshold, true
}

// holds reports whether a decided result puts the worker on hold. A container that is about to be restarted
// is not probed, and a started container needs no startup probe (kubernetes#117153).
func holds(kind probe.Kind, noRestart bool, decided results.Result) bool {
	if decided == results.Failure {
		return kind != probe.Readiness && !noRestart
	}
	return kind == probe.Startup
}

// counted maps an attempt's result to Success or Failure, which the thresholds count. Warning is a Success
// unless spec.WarningIsFailure is set. Unknown without an error is a Failure.
func counted(r probe.Result, spec probe.Spec) results.Result {
	switch {
	case r == probe.Success, r == probe.Warning && !spec.WarningIsFailure:
		return results.Success
	default:
		return results.Failure
	}
}
