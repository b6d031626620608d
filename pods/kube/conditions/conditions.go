// Package conditions says what the states of a pod's probes mean for its conditions, and writes
// those that have changed. Read [Decide] first: it is the rule. writer.go is when it is written.
package conditions

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/probe"
)

// The types of the conditions that are written.
const (
	Ready v1.PodConditionType = "prober.dev/ready" // the readiness gate
	Live  v1.PodConditionType = "prober.dev/live"  // of pods with liveness or startup probes
	// Prefix begins the types of the conditions of single probes: prober.dev/readiness.web.
	Prefix = "prober.dev/"
)

// The reasons of the conditions.
const (
	ProbeSucceeded = "ProbeSucceeded"
	ProbeWarning   = "ProbeWarning"
	ProbeFailed    = "ProbeFailed"
	ProbeUnknown   = "ProbeUnknown"
	Paused         = "Paused"
	AgentLost      = "AgentLost"
	NotProbed      = "NotProbed" // nothing decides the condition any more, or yet
)

// Probe is the state of one probe of a pod.
type Probe struct {
	Container string
	Kind      probe.Kind
	State     states.State // of a decided probe Unknown means that it can no longer be carried out
	Decided   bool         // an attempt has decided its result since the container started, or an earlier agent has
	Failed    bool         // the decided result is a failure; it stays so while State is unknown
	Paused    bool
	Text      string // output or error of the attempt that decided, without secrets
}

// Pod is what the conditions of a pod are made of. A [Writer] keeps it: it must not be modified.
type Pod struct {
	api.Pod
	Gated    bool // it has the readiness gate
	PerProbe bool // it asks for a condition for each probe
	Ending   bool // it is being deleted: what probes have decided that were stopped stays
	// Generation is the generation of the pod, for observedGeneration. 0: it has none.
	Generation int64
	Frozen     string            // why no condition may turn false at present, "" if it may
	Probes     []Probe           // in a stable order
	Published  []v1.PodCondition // of the pod, as the API server last told
}

// find returns the condition of a type; nil if there is none.
func find(conditions []v1.PodCondition, of v1.PodConditionType) *v1.PodCondition {
	for i := range conditions {
		if conditions[i].Type == of {
			return &conditions[i]
		}
	}
	return nil
}

// alike reports whether two conditions say the same but for numbers: what changes at each attempt, and what
// an earlier agent has written, is not written again. published may be nil.
func alike(next, published *v1.PodCondition) bool {
	return alikeStates(next, published) && alikeMessages(next.Message, published.Message) && !outdated(next, published)
}

// alikeStates reports whether two conditions differ in the message at most. published may be nil.
func alikeStates(next, published *v1.PodCondition) bool {
	return published != nil && next.Status == published.Status && next.Reason == published.Reason
}

// outdated reports whether a condition was published for another generation of the pod. An API server that
// does not store generations of conditions shows none.
func outdated(next, published *v1.PodCondition) bool {
	return published.ObservedGeneration != 0 && next.ObservedGeneration != published.ObservedGeneration
}

// alikeMessages reports whether two messages are about the same probes, and tell the same of each but for numbers.
// Names are compared as they are.
func alikeMessages(a, b string) bool {
	next, published := strings.Split(a, separator), strings.Split(b, separator)
	return slices.EqualFunc(next, published, func(a, b string) bool {
		name, text := splitLine(a)
		other, told := splitLine(b)
		return name == other && states.Alike(text, told)
	})
}

// same reports whether two conditions say the same; nil is none.
func same(a, b *v1.PodCondition) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message && (a.ObservedGeneration == b.ObservedGeneration || a.ObservedGeneration == 0 || b.ObservedGeneration == 0)
}
