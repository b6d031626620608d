package group

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/daeace23/prober/probe"
)

// The kubelet's defaults of a probe.
const (
	defaultPeriod           = 10 * time.Second
	defaultTimeout          = time.Second
	defaultSuccessThreshold = 1
	defaultFailureThreshold = 3
)

// minDuration is the shortest period and timeout. A shorter one is a number without a unit.
const minDuration = time.Millisecond

// String returns the ID for people: `key checkout, task "web", readiness`.
func (id ID[K]) String() string {
	return fmt.Sprintf("key %v, task %q, %s", id.Key, id.Task, id.Kind)
}

// checked returns p with the defaults of its spec, or an error that names the invalid field.
func checked[K comparable](key K, p Probe) (Probe, error) {
	if p.Task == nil {
		return p, fmt.Errorf("key %v: Probe.Task is nil", key)
	}
	p.Spec.Period = cmp.Or(p.Spec.Period, defaultPeriod)
	p.Spec.Timeout = cmp.Or(p.Spec.Timeout, defaultTimeout)
	p.Spec.SuccessThreshold = cmp.Or(p.Spec.SuccessThreshold, defaultSuccessThreshold)
	p.Spec.FailureThreshold = cmp.Or(p.Spec.FailureThreshold, defaultFailureThreshold)
	if err := check(&p); err != nil {
		return p, fmt.Errorf("%v: %w", ID[K]{key, p.Task.Subject.Container, p.Kind}, err)
	}
	return p, nil
}

func check(p *Probe) error {
	switch {
	case int(p.Kind) >= len(probe.Kinds):
		return fmt.Errorf("Probe.Kind is %d: must be one of %v", p.Kind, probe.Kinds)
	case p.Handler == nil:
		return errors.New("Probe.Handler is nil")
	case p.Spec.Period < minDuration:
		return fmt.Errorf("Probe.Spec.Period is %v: must be at least %v", p.Spec.Period, minDuration)
	case p.Spec.Timeout > 0 && p.Spec.Timeout < minDuration:
		return fmt.Errorf("Probe.Spec.Timeout is %v: must be at least %v, or negative for none", p.Spec.Timeout, minDuration)
	case p.Spec.SuccessThreshold < 0:
		return fmt.Errorf("Probe.Spec.SuccessThreshold is %d: must not be negative", p.Spec.SuccessThreshold)
	case p.Spec.FailureThreshold < 0:
		return fmt.Errorf("Probe.Spec.FailureThreshold is %d: must not be negative", p.Spec.FailureThreshold)
	}
	return nil
}
