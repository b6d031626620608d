package worker

import (
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// run is the memory that thresholds need: how many equal results came last.
type run struct {
	last   results.Result
	length int
	hold   bool // no probing until a new container ID
}

// fold adds one counted result to r and says whether it reaches its threshold and
// so decides. It is the kubelet's threshold rule, and a pure function. noRestart is the
// container's; see [Container].
func fold(r run, kind probe.Kind, spec probe.Spec, noRestart bool, result results.Result) (next run, decided bool) {
	next = r
	if r.last == result {
		next.length++
	} else {
		next.last, next.length = result, 1
	}
	threshold := spec.SuccessThreshold
	if result == results.Failure {
		threshold = spec.FailureThreshold
	}
	if next.length < threshold {
		return next, false
	}
	if holds(kind, noRestart, result) {
		next.hold, next.length = true, 0
	}
	return next, true
}

// holds reports whether a decided result puts the worker on hold. A container that is
// about to be restarted is left alone, and so is one that has started:
// kubernetes#117153.
func holds(kind probe.Kind, noRestart bool, decided results.Result) bool {
	if decided == results.Failure {
		return kind != probe.Readiness && !noRestart
	}
	return kind == probe.Startup
}

// counted maps what an attempt answered to what the thresholds count. A Warning is
// logically a success; Unknown without an error is a failure.
func counted(r probe.Result, spec probe.Spec) results.Result {
	switch {
	case r == probe.Success, r == probe.Warning && !spec.WarningIsFailure:
		return results.Success
	default:
		return results.Failure
	}
}

// InitialResult is the decided result of a container that was not probed yet: a
// container lives, is not ready, and has not started, until a probe says otherwise.
func InitialResult(kind probe.Kind) results.Result {
	switch kind {
	case probe.Liveness:
		return results.Success
	case probe.Readiness:
		return results.Failure
	default:
		return results.Unknown
	}
}
