package conditions

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/probe"
)

// Decide returns the conditions of prober that the pod should have and has not published, without
// times. Those that are to be left alone are not among them.
func Decide(pod *Pod) (changed []v1.PodCondition) {
	set := func(of v1.PodConditionType, probes []*Probe) {
		published := find(pod.Published, of)
		if next := decide(of, probes, published, pod.Frozen); next != nil && !alike(next, published) {
			changed = append(changed, *next)
		}
	}
	if pod.Gated {
		set(Ready, pod.of(probe.Readiness, probe.Startup))
	}
	if live := pod.of(probe.Liveness, probe.Startup); len(live) > 0 {
		set(Live, live)
	}
	for _, p := range pod.of(probe.Kinds[:]...) {
		if name := p.Kind.String() + "." + p.Container; pod.PerProbe && len(name) <= maxName {
			set(v1.PodConditionType(Prefix+name), []*Probe{p})
		}
	}
	return changed
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
