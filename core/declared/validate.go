package declared

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// SetProbeDefaults sets the defaults of the Kubernetes API server: timeout 1 s, period 10 s,
// success threshold 1, failure threshold 3, path "/", scheme HTTP, service "".
func SetProbeDefaults(p *v1.Probe) {
	for _, d := range [...]struct {
		field *int32
		value int32
	}{
		{&p.TimeoutSeconds, 1}, {&p.PeriodSeconds, 10}, {&p.SuccessThreshold, 1}, {&p.FailureThreshold, 3},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	for _, a := range actionsOf(&p.ProbeHandler) {
		a.setDefaults()
	}
}

// actionsOf returns the configs of the handlers in h. A valid h has exactly one.
func actionsOf(h *v1.ProbeHandler) (all []action) {
	for i := range builtins {
		if b := &builtins[i]; b.inAPI != nil {
			if a := b.inAPI(h); a != nil {
				all = append(all, a)
			}
		}
	}
	return all
}

// ValidatePod returns the errors in the probes of pod, by the rules of the Kubernetes API server and of the
// annotation. Fields with a default may be unset.
func ValidatePod(pod *v1.Pod) field.ErrorList { return Parse(pod).Validate() }

// Validate returns the errors of [ValidatePod]. It does not check the size of the expanded commands of
// containers, which [Pod.Errors] does.
func (d *Pod) Validate() (errs field.ErrorList) {
	pod := d.pod
	for i := range pod.Spec.Containers {
		errs = append(errs, validateContainer(&pod.Spec.Containers[i], containerPath(i, false))...)
	}
	for i := range pod.Spec.InitContainers {
		c, path := &pod.Spec.InitContainers[i], containerPath(i, true)
		if IsSidecar(c) {
			errs = append(errs, validateContainer(c, path)...)
			continue
		}
		errs = append(errs, forbidProbes(path, "an init container has probes only with restartPolicy Always", c.LivenessProbe, c.ReadinessProbe, c.StartupProbe)...)
	}
	for i := range pod.Spec.EphemeralContainers {
		c, path := &pod.Spec.EphemeralContainers[i], field.NewPath("spec", "ephemeralContainers").Index(i)
		errs = append(errs, forbidProbes(path, "an ephemeral container has no probes", c.LivenessProbe, c.ReadinessProbe, c.StartupProbe)...)
	}
	if d.Plain() {
		return errs
	}
	for _, err := range d.List().text {
		errs = append(errs, err.(*field.Error))
	}
	return errs
}

// Warnings returns the probable mistakes in valid probes: a timeout that is longer than the period.
func (d *Pod) Warnings() (list field.ErrorList) {
	configs := d.List().Probes
	for i := range configs {
		list = append(list, configs[i].warnings()...)
	}
	return list
}

func (c *Probe) warnings() field.ErrorList {
	period, which := c.Spec.Period, "period"
	if p := c.Spec.UnhealthyPeriod; p != 0 && p < period {
		period, which = p, "unhealthyPeriod"
	}
	if c.Spec.Timeout <= period {
		return nil
	}
	name := "timeoutSeconds"
	if c.parsed {
		name = "timeout"
	}
	return field.ErrorList{field.Invalid(c.FieldPath().Child(name), c.Spec.Timeout.String(),
		fmt.Sprintf("the timeout of %s is longer than the %s of %s: ticks that are due during an attempt are skipped", c.Spec.Timeout, which, period))}
}

const noHandler = "must specify a handler type"

func forbidProbes(path *field.Path, why string, liveness, readiness, startup *v1.Probe) (errs field.ErrorList) {
	for _, slot := range [...]struct {
		name  string
		probe *v1.Probe
	}{{"livenessProbe", liveness}, {"readinessProbe", readiness}, {"startupProbe", startup}} {
		if slot.probe != nil {
			errs = append(errs, field.Forbidden(path.Child(slot.name), why))
		}
	}
	return errs
}

func validateContainer(c *v1.Container, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, validateSingleSuccess(c.LivenessProbe, path.Child("livenessProbe"))...)
	readiness := path.Child("readinessProbe")
	errs = append(errs, ValidateProbe(c.ReadinessProbe, readiness)...)
	if p := c.ReadinessProbe; p != nil && p.TerminationGracePeriodSeconds != nil {
		errs = append(errs, field.Invalid(readiness.Child("terminationGracePeriodSeconds"), *p.TerminationGracePeriodSeconds, "must not be set for readinessProbes"))
	}
	return append(errs, validateSingleSuccess(c.StartupProbe, path.Child("startupProbe"))...)
}

// validateSingleSuccess validates a probe whose successThreshold must be 1.
func validateSingleSuccess(p *v1.Probe, path *field.Path) field.ErrorList {
	errs := ValidateProbe(p, path)
	if p != nil && p.SuccessThreshold != 0 && p.SuccessThreshold != 1 {
		errs = append(errs, field.Invalid(path.Child("successThreshold"), p.SuccessThreshold, "must be 1"))
	}
	return errs
}

// ValidateProbe returns the errors in p, by the rules of the Kubernetes API server. A nil probe has no
// errors.
func ValidateProbe(p *v1.Probe, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	p = p.DeepCopy()
	SetProbeDefaults(p)
	return append(validateHandler(&p.ProbeHandler, path), checkNumbers(p, path)...)
}

// checkNumbers checks the limits of the five integers and of the grace period.
func checkNumbers(p *v1.Probe, path *field.Path) (errs field.ErrorList) {
	for _, n := range [...]struct {
		name  string
		value int32
		least int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds, 0},
		{"timeoutSeconds", p.TimeoutSeconds, 1},
		{"periodSeconds", p.PeriodSeconds, 1},
		{"successThreshold", p.SuccessThreshold, 1},
		{"failureThreshold", p.FailureThreshold, 1},
	} {
		if n.value < n.least {
			errs = append(errs, field.Invalid(path.Child(n.name), n.value, fmt.Sprintf("must be at least %d", n.least)))
		}
	}
	if g := p.TerminationGracePeriodSeconds; g != nil && *g <= 0 {
		errs = append(errs, field.Invalid(path.Child("terminationGracePeriodSeconds"), *g, "must be greater than 0"))
	}
	return errs
}

func validateHandler(h *v1.ProbeHandler, path *field.Path) field.ErrorList {
	actions := make([]action, len(builtins))
	for i := range builtins {
		if b := &builtins[i]; b.inAPI != nil {
			actions[i] = b.inAPI(h)
		}
	}
	return validateActions(actions, path)
}

// validateActions validates the configs of a probe, by index in builtins. Exactly one must be set.
func validateActions(actions []action, path *field.Path) (errs field.ErrorList) {
	found := false
	for i, a := range actions {
		switch at := path.Child(builtins[i].Field); {
		case a == nil:
		case found:
			errs = append(errs, field.Forbidden(at, "may not specify more than 1 handler type"))
		default:
			found = true
			errs = append(errs, a.validate(at)...)
		}
	}
	if !found {
		errs = append(errs, field.Required(path, noHandler))
	}
	return errs
}
