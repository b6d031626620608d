package worker

import (
	"fmt"

	"github.com/daeace23/prober/core/results"
)

// Gate is the reason why the ticks of a probe make no attempts.
type Gate uint8

// The gates. The start of a tick checks NoStatus to Paused in this order, which is the order of the kubelet's
// doProbe, and then UnderWay. Started and NotStarted exclude each other. Quarantined is the gate after a tick
// whose error reports a quarantine.
const (
	Open         Gate = iota // ticks make attempts
	NoStatus                 // the pod has no status
	PodEnded                 // the worker ends
	NoContainer              // the status has no container ID yet
	OnHold                   // on hold until the container ID changes
	NotRunning               // the worker ends if the state is final
	Terminating              // no liveness and startup probes; the worker ends
	InitialDelay             // the initial delay after the container's start is not over
	NotStarted               // the startup probe has not succeeded
	Started                  // the startup probe has succeeded
	Paused
	Quarantined // the handler has suspended attempts for some time
	InUse       // another task has claimed the container ID; checked before all gates except those without an ID
	UnderWay    // the handler of an attempt ignores its deadline; each tick is an error
	ForcedUp    // paused with the result Success; see [Gate.Forced]
	ForcedDown  // paused with the result Failure
	Drained     // paused with the result Failure, in the state before it
)

var gateNames = [...]string{
	Open: "", NoStatus: "no status", PodEnded: "pod ended", NoContainer: "no container", OnHold: "on hold",
	NotRunning: "container not running", Terminating: "terminating", InitialDelay: "initial delay",
	NotStarted: "not started", Started: "started", Paused: "paused", Quarantined: "quarantined",
	InUse: "container ID in use", UnderWay: "attempt under way",
	ForcedUp: "forced up", ForcedDown: "forced down", Drained: "drained",
}

// Forced returns the result that a user has forced; false for a gate that forces none. The first attempt after
// it counts as if there had been no forced result.
func (g Gate) Forced() (r results.Result, ok bool) {
	switch g {
	case ForcedUp:
		return results.Success, true
	case ForcedDown, Drained:
		return results.Failure, true
	default:
		return results.Unknown, false
	}
}

// Gates returns all gates except [Open].
func Gates() (all []Gate) {
	for g := range gateNames[1:] {
		all = append(all, Gate(g+1))
	}
	return all
}

// String returns a description of the gate, "" for [Open].
func (g Gate) String() string {
	if int(g) < len(gateNames) {
		return gateNames[g]
	}
	return fmt.Sprintf("Gate(%d)", uint8(g))
}
