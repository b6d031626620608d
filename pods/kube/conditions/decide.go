package conditions

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/probe"
)

// Decide returns the conditions of prober that must be written because they differ from pod.Published. Their
// transition times are not set.
func Decide(pod *Pod) (changed []v1.PodCondition) {
	var kept []v1.PodConditionType
	put := func(next *v1.PodCondition) {
		if next.ObservedGeneration = pod.Generation; !alike(next, find(pod.Published, next.Type)) {
			changed = append(changed, *next)
		}
	}
	set := func(conditionType v1.PodConditionType, probes []*Probe) {
		kept = append(kept, conditionType)
		if next := decide(conditionType, probes, find(pod.Published, conditionType), pod.Frozen); next != nil {
			put(next)
		}
	}
	gate := pod.probesOfKinds(probe.Readiness, probe.Startup)
	switch {
	case pod.Ending && len(gate) == 0: // leave the condition unchanged
	case pod.Gated && len(pod.Probes) > 0:
		set(Ready, gate)
	case pod.Gated:
		kept = append(kept, Ready)
		put(notProbed(Ready))
	}
	if live := pod.probesOfKinds(probe.Liveness, probe.Startup); len(live) > 0 {
		set(Live, live)
	}
	for _, p := range pod.probesOfKinds(probe.Kinds[:]...) {
		if conditionType := TypeOf(p.Container, p.Kind); pod.PerProbe && conditionType != "" {
			set(conditionType, []*Probe{p})
		}
	}
	if pod.Ending {
		return changed
	}
	for i := range pod.Published {
		if t := pod.Published[i].Type; IsOurs(t) && !slices.Contains(kept, t) {
			put(notProbed(t))
		}
	}
	return changed
}

// notProbed returns the condition of a type that no probe decides. Its status is Unknown, which a readiness gate
// treats as False.
func notProbed(conditionType v1.PodConditionType) *v1.PodCondition {
	return &v1.PodCondition{Type: conditionType, Status: v1.ConditionUnknown, Reason: NotProbed, Message: "no probe of prober decides this condition"}
}

// TypeOf returns the condition type of a single probe; "" if the name would be too long.
func TypeOf(container string, kind probe.Kind) v1.PodConditionType {
	if name := kind.String() + "." + container; len(name) <= maxName {
		return v1.PodConditionType(Prefix + name)
	}
	return ""
}

// IsOurs reports whether this package writes conditions of a type.
func IsOurs(t v1.PodConditionType) bool {
	name, ok := strings.CutPrefix(string(t), Prefix)
	kind, _, single := strings.Cut(name, ".")
	_, err := probe.ParseKind(kind)
	return t == Ready || t == Live || ok && single && err == nil
}

// decide returns the condition that sums up some probes; nil if the published one must not change.
func decide(conditionType v1.PodConditionType, probes []*Probe, published *v1.PodCondition, frozen string) *v1.PodCondition {
	status, reason, undecided := v1.ConditionTrue, ProbeSucceeded, false
	for _, p := range probes {
		if !p.Decided {
			undecided = true
			continue
		}
		if p.Failed {
			status = v1.ConditionFalse
		}
		reason = worse(reason, p.reason())
	}
	turnsFalse := status == v1.ConditionFalse && (published == nil || published.Status != v1.ConditionFalse)
	switch {
	case undecided && status != v1.ConditionFalse:
		return nil
	case !turnsFalse || frozen == "":
		return &v1.PodCondition{Type: conditionType, Status: status, Reason: reason, Message: message(probes)}
	case published == nil || published.Reason == ProbeUnknown: // the text of frozen may differ at each tick
		return nil
	default:
		return &v1.PodCondition{Type: conditionType, Status: published.Status, Reason: ProbeUnknown, Message: clip.Text(api.OneLine(frozen), maxMessage)}
	}
}

// maxName is the maximum length of a condition type after its prefix: the limit of a qualified name.
const maxName = 63

// probesOfKinds returns the probes of the given kinds.
func (p *Pod) probesOfKinds(kinds ...probe.Kind) (some []*Probe) {
	for i := range p.Probes {
		if slices.Contains(kinds, p.Probes[i].Kind) {
			some = append(some, &p.Probes[i])
		}
	}
	return some
}

// reason returns the reason for a decided probe.
func (p *Probe) reason() string {
	switch {
	case p.State == states.Unknown:
		return ProbeUnknown
	case p.Failed:
		return ProbeFailed
	case p.Paused:
		return Paused
	case p.State == states.Warning:
		return ProbeWarning
	default:
		return ProbeSucceeded
	}
}

// reasons has the reasons of probes, the worst first.
var reasons = []string{ProbeFailed, ProbeUnknown, Paused, ProbeWarning, ProbeSucceeded}

// worse returns the worse of two reasons.
func worse(a, b string) string {
	return reasons[min(slices.Index(reasons, a), slices.Index(reasons, b))]
}
