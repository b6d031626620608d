// Package conditions computes the conditions of a pod from the states of its probes, and writes changed
// conditions. Read [Decide] first: it computes them. writer.go decides when they are written.
package conditions

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/probe"
)

// The types of conditions.
const (
	Ready v1.PodConditionType = "prober.dev/ready" // the readiness gate
	Live  v1.PodConditionType = "prober.dev/live"  // of pods with liveness or startup probes
	// Prefix begins the types of conditions of single probes, such as prober.dev/readiness.web.
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
	NotProbed      = "NotProbed" // no probe decides the condition
)

// Probe is the state of one probe of a pod.
type Probe struct {
	Container string
	Kind      probe.Kind
	State     states.State // Unknown, if Decided: the probe cannot be carried out at present
	Decided   bool         // it has a result since the container started, by this agent or an earlier one
	Failed    bool         // the decided result is a failure; unchanged while State is Unknown
	Paused    bool
	Text      string // output or error of the attempt that decided, without secrets
}

// Pod is the input from which the conditions of a pod are computed. A [Writer] keeps it: it must not be modified.
type Pod struct {
	api.Pod
	Gated    bool // it has the readiness gate
	PerProbe bool // it asks for a condition for each probe
	Ending   bool // it is being deleted: conditions of stopped probes stay
	// Generation is the generation of the pod, for observedGeneration. 0: it has none.
	Generation int64
	Frozen     string            // why no condition may turn false at present; "" if conditions may
	Probes     []Probe           // in a stable order
	Published  []v1.PodCondition // conditions of the pod at the API server
}

// find returns the condition of a type; nil if there is none.
func find(conditions []v1.PodCondition, conditionType v1.PodConditionType) *v1.PodCondition {
	for i := range conditions {
		if conditions[i].Type == conditionType {
			return &conditions[i]
		}
	}
	return nil
}

// alike reports whether two conditions are equal except for times and the numbers in their messages. So text that
// differs between attempts, or between agents, causes no write. published may be nil.
func alike(next, published *v1.PodCondition) bool {
	return alikeStates(next, published) && alikeMessages(next.Message, published.Message) && !outdated(next, published)
}

// alikeStates reports whether two conditions have the same status and reason. published may be nil.
func alikeStates(next, published *v1.PodCondition) bool {
	return published != nil && next.Status == published.Status && next.Reason == published.Reason
}

// outdated reports whether a condition was published for another generation of the pod. It returns false if the
// API server does not store observedGeneration.
func outdated(next, published *v1.PodCondition) bool {
	return published.ObservedGeneration != 0 && next.ObservedGeneration != published.ObservedGeneration
}

// alikeMessages reports whether two messages list the same probes with the same texts, except for numbers.
// Names are compared exactly.
func alikeMessages(a, b string) bool {
	next, published := strings.Split(a, separator), strings.Split(b, separator)
	return slices.EqualFunc(next, published, func(a, b string) bool {
		name, text := splitLine(a)
		otherName, otherText := splitLine(b)
		return name == otherName && states.Alike(text, otherText)
	})
}

// same reports whether two conditions are equal except for their times. Either may be nil. A generation of 0
// equals any generation.
func same(a, b *v1.PodCondition) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message && (a.ObservedGeneration == b.ObservedGeneration || a.ObservedGeneration == 0 || b.ObservedGeneration == 0)
}
