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

// Decide returns the conditions of prober that the pod should have and has not published, without
// times. Those that are to be left alone are not among them.
func Decide(pod *Pod) (changed []v1.PodCondition) {
	var kept []v1.PodConditionType
	put := func(next *v1.PodCondition) {
		if next.ObservedGeneration = pod.Generation; !alike(next, find(pod.Published, next.Type)) {
			changed = append(changed, *next)
		}
	}
	set := func(of v1.PodConditionType, probes []*Probe) {
		kept = append(kept, of)
		if next := decide(of, probes, find(pod.Published, of), pod.Frozen); next != nil {
			put(next)
		}
	}
	gate := pod.of(probe.Readiness, probe.Startup)
	switch {
	case pod.Ending && len(gate) == 0: // it stays as it is
	case pod.Gated && len(pod.Probes) > 0:
		set(Ready, gate)
	case pod.Gated:
		kept = append(kept, Ready)
		put(notProbed(Ready))
	}
	if live := pod.of(probe.Liveness, probe.Startup); len(live) > 0 {
		set(Live, live)
	}
	for _, p := range pod.of(probe.Kinds[:]...) {
		if of := TypeOf(p.Container, p.Kind); pod.PerProbe && of != "" {
			set(of, []*Probe{p})
		}
	}
	if pod.Ending {
		return changed
	}
	for i := range pod.Published {
		if of := pod.Published[i].Type; isOurs(of) && !slices.Contains(kept, of) {
			put(notProbed(of))
		}
	}
	return changed
}

// notProbed returns the condition of a type that no probe decides: neither the last result of a probe that is gone
// nor that nothing is wrong would be true. A readiness gate counts as False then.
func notProbed(of v1.PodConditionType) *v1.PodCondition {
	return &v1.PodCondition{Type: of, Status: v1.ConditionUnknown, Reason: NotProbed, Message: "no probe of prober decides this condition"}
}

// TypeOf returns the type of the condition of a single probe; "" if its name would be too long for one.
func TypeOf(container string, kind probe.Kind) v1.PodConditionType {
	if name := kind.String() + "." + container; len(name) <= maxName {
		return v1.PodConditionType(Prefix + name)
	}
	return ""
}

// isOurs reports whether a condition is of a type that this package writes.
func isOurs(of v1.PodConditionType) bool {
	name, ok := strings.CutPrefix(string(of), Prefix)
	kind, _, single := strings.Cut(name, ".")
	_, err := probe.ParseKind(kind)
	return of == Ready || of == Live || ok && single && err == nil
}

// decide returns the condition of some probes; nil if it is to be left alone.
func decide(of v1.PodConditionType, probes []*Probe, published *v1.PodCondition, frozen string) *v1.PodCondition {
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
		return &v1.PodCondition{Type: of, Status: status, Reason: reason, Message: message(probes)}
	case published == nil || published.Reason == ProbeUnknown: // the cause of freezing may be worded anew at each tick
		return nil
	default:
		return &v1.PodCondition{Type: of, Status: published.Status, Reason: ProbeUnknown, Message: clip.Text(api.OneLine(frozen), maxMessage)}
	}
}

// maxName is the length of the name of a condition after its prefix: that of a qualified name.
const maxName = 63

// of returns the probes of some kinds.
func (p *Pod) of(kinds ...probe.Kind) (some []*Probe) {
	for i := range p.Probes {
		if slices.Contains(kinds, p.Probes[i].Kind) {
			some = append(some, &p.Probes[i])
		}
	}
	return some
}

// reason returns the reason of a probe that has decided.
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

// reasons are those of probes, the worst first.
var reasons = []string{ProbeFailed, ProbeUnknown, Paused, ProbeWarning, ProbeSucceeded}

// worse returns the worse one of two reasons.
func worse(a, b string) string {
	return reasons[min(slices.Index(reasons, a), slices.Index(reasons, b))]
}
