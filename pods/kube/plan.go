package kube

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/pods/kube/conditions"
	"github.com/daeace23/prober/pods/kube/liveness"
	"github.com/daeace23/prober/pods/kube/policy"
	"github.com/daeace23/prober/probe"
)

// The annotations of a pod beside [declared.Annotation].
const (
	LivenessAnnotation   = "prober.dev/liveness"      // a [liveness.Mode]
	AgentLossAnnotation  = "prober.dev/on-agent-loss" // keep or unready
	agentLossUnready     = "unready"
	ConditionsAnnotation = "prober.dev/conditions" // "true": a condition for each probe
	NetworkAnnotation    = "prober.dev/network"    // node or pod
)

// probeKey names a probe of a pod.
type probeKey struct {
	container string
	kind      probe.Kind
}

// plan holds the requests of a pod that the operator's policy allows. It is read-only.
type plan struct {
	pod      *v1.Pod       // for the manager and for readers
	declared *declared.Pod // its probes without those that the policy refuses
	errs     []error       // errors in the annotations of the pod
	notes    []error       // ignored requests that keep no probe from running
	rate     float64       // attempts a second of its probes
	crowded  bool          // probes were refused because their namespace exceeds its rate

	mode     liveness.Mode
	perProbe bool
	inPod    bool // its probes are carried out in the network of the pod
	ownAddr  bool // a probe names an address of the pod as its target
	grace    map[probeKey]*int64
	period   map[probeKey]time.Duration
	startup  map[string]bool // containers with a startup probe
	plugins  []string        // names of the handlers that are not built in

	addresses []string // of the pod
}

// newPlan returns the plan of a pod with its policies, with at most room attempts a second. pod is trimmed; see trim.
// Its probes have the labels.
func newPlan(pod *v1.Pod, labels map[string]string, policies []policy.NodePolicy, cfg *Config, room float64) *plan {
	p := &plan{pod: withoutKubeletProbes(pod), mode: liveness.Observe, grace: make(map[probeKey]*int64), period: make(map[probeKey]time.Duration), startup: make(map[string]bool), addresses: addressesOf(&pod.Status)}
	p.pod.Labels = labels
	written, mode := policy.Written(policies)
	network := p.options(pod, mode, cfg)
	allowed := newTargets(cfg.Policy.Targets, pod, p.inPod)
	all, _ := declared.ParseWith(p.pod, written)
	p.declared = all.Refuse(func(checks []declared.Probe) error {
		refusal := network
		for i := range checks {
			if refusal == nil {
				refusal = p.check(&checks[i], cfg, allowed)
			}
		}
		if refusal == nil {
			refusal = p.admit(checks, cfg, room)
		}
		if refusal == nil {
			return nil // an interface with a nil *field.Error is not nil
		}
		return refusal
	})
	for _, err := range p.declared.Errors() {
		p.errs = appendNew(p.errs, err)
	}
	for _, c := range p.declared.Probes() {
		key := probeKey{c.Container, c.Kind}
		p.grace[key], p.period[key] = c.TerminationGracePeriodSeconds, c.Spec.Period
		if p.perProbe && conditions.TypeOf(c.Container, c.Kind) == "" {
			p.notes = appendNew(p.notes, field.Invalid(annotationPath(ConditionsAnnotation), c.Kind.String()+"."+c.Container, "the name of the condition would be longer than 63 characters: this probe has none of its own"))
		}
		p.startup[c.Container] = p.startup[c.Container] || c.Kind == probe.Startup
		if !declared.IsBuiltin(c.Handler) && !slices.Contains(p.plugins, c.Handler) {
			p.plugins = append(p.plugins, c.Handler)
		}
	}
	return p
}

// options reads the other annotations. written is the liveness mode of a policy, for a pod without that annotation. A
// non-nil error means that no probe of the pod may be started.
func (p *plan) options(pod *v1.Pod, written policy.Mode, cfg *Config) (network *field.Error) {
	mode, at := p.option(pod, LivenessAnnotation, config.LivenessModes...), annotationPath(LivenessAnnotation)
	if _, set := pod.Annotations[LivenessAnnotation]; !set && written.Name != "" {
		mode, at = written.Name, written.Path
	}
	if mode != "" {
		p.mode = liveness.Mode(mode)
		if !slices.Contains(cfg.Policy.Liveness.Modes, mode) {
			p.mode = liveness.Observe
			p.errs = append(p.errs, field.Forbidden(at, fmt.Sprintf("kubernetes.liveness.modes of the agent does not allow %q; failures are observed", mode)))
		}
	}
	p.option(pod, AgentLossAnnotation, "keep", agentLossUnready)
	if _, mirror := pod.Annotations[v1.MirrorPodAnnotationKey]; mirror && cfg.Runtime != nil {
		return field.Forbidden(annotationPath(v1.MirrorPodAnnotationKey), "the runtime does not know the containers of a static pod by the UID of its mirror pod: an agent with --cri-socket does not probe it")
	}
	p.perProbe = p.option(pod, ConditionsAnnotation, "true", "false") == "true"
	if p.option(pod, NetworkAnnotation, "node", "pod") != "pod" {
		return nil
	}
	at = annotationPath(NetworkAnnotation)
	switch {
	case !cfg.Policy.PodNetwork:
		return field.Forbidden(at, "kubernetes.podNetwork of the agent does not allow probes in the network of a pod")
	case cfg.Runtime == nil:
		return field.Forbidden(at, "the agent has no --cri-socket, and does not know the network of the pod")
	case pod.Spec.HostNetwork:
		return field.Forbidden(at, "the pod is in the network of its node")
	}
	p.inPod = true
	return nil
}

// option returns the value of an annotation; "" if it is not set or not a known value.
func (p *plan) option(pod *v1.Pod, name string, known ...string) string {
	value, ok := pod.Annotations[name]
	if !ok || slices.Contains(known, value) {
		return value
	}
	p.errs = append(p.errs, field.NotSupported(annotationPath(name), value, known))
	return ""
}

func annotationPath(name string) *field.Path {
	return field.NewPath("metadata", "annotations").Key(name)
}

// check returns an error if the policy forbids a probe.
func (p *plan) check(c *declared.Probe, cfg *Config, allowed *targets) *field.Error {
	if least := cfg.Policy.MinPeriod; c.Spec.Period < least {
		return field.Invalid(c.SpecPath().Child("period"), c.Spec.Period.String(), "kubernetes.minPeriod of the agent is "+least.String())
	}
	if least := cfg.Policy.MinPeriod; c.Spec.UnhealthyPeriod != 0 && c.Spec.UnhealthyPeriod < least {
		return field.Invalid(c.SpecPath().Child("unhealthyPeriod"), c.Spec.UnhealthyPeriod.String(), "kubernetes.minPeriod of the agent is "+least.String())
	}
	if c.Handler == "exec" && !cfg.canExec() {
		_, at, _ := c.Place()
		return field.Forbidden(at, "the agent can run no commands in containers: it needs --cri-socket, or kubernetes.apiExec")
	}
	own, refusal := allowed.checkProbe(c)
	p.ownAddr = p.ownAddr || own
	return refusal
}

// admit adds the rate of a probe with these checks to the plan. It returns an error if that exceeds room.
func (p *plan) admit(checks []declared.Probe, cfg *Config, room float64) *field.Error {
	c := &checks[0]
	at, period := "period", c.Spec.Period
	if p := c.Spec.UnhealthyPeriod; p != 0 && p < period {
		at, period = "unhealthyPeriod", p
	}
	rate := float64(len(checks)) / period.Seconds()
	if p.rate+rate > room+rounding {
		p.crowded = true
		return field.Forbidden(c.SpecPath().Child(at), fmt.Sprintf(
			"kubernetes.maxRate of the agent allows the probes of namespace %s on this node %d attempts a second", p.pod.Namespace, cfg.Policy.MaxRate))
	}
	p.rate += rate
	return nil
}

// rounding is an upper bound of the floating-point error of a sum of rates.
const rounding = 1e-6

// appendNew appends err unless there is one with the same text.
func appendNew(errs []error, err error) []error {
	if slices.ContainsFunc(errs, func(e error) bool { return e.Error() == err.Error() }) {
		return errs
	}
	return append(errs, err)
}

// maxMessage is the maximum length of an event message in bytes.
const maxMessage = 1024

// message joins errs into the message of an event.
func message(errs []error) string {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = strings.ReplaceAll(err.Error(), "\n", " ")
	}
	return clip.Text(strings.Join(texts, "; "), maxMessage)
}
