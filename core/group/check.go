package group

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// The kubelet's defaults of a probe.
const (
	defaultPeriod           = 10 * time.Second
	defaultTimeout          = time.Second
	defaultSuccessThreshold = 1
	defaultFailureThreshold = 3
)

// minDuration is the shortest period and timeout. A shorter value is probably a number without a unit.
const minDuration = time.Millisecond

// String returns a description of the ID: `key checkout, task "web", readiness`.
func (id ID[K]) String() string {
	return fmt.Sprintf("key %v, task %q, %s", id.Key, id.Task, id.Kind)
}

// checked returns p with the defaults of its spec, or an error that names the invalid field.
func checked[K comparable](key K, p Probe) (Probe, error) {
	switch {
	case p.Task == nil:
		return p, fmt.Errorf("key %v: %w", key, invalid("Probe.Task", "is nil"))
	case !reflect.ValueOf(&key).Elem().Comparable(), key != key: // a NaN key could not be found again
		return p, fmt.Errorf("the key %v is not equal to itself", key)
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

// FieldError is the error of an invalid field of a [Probe] or a [Config].
type FieldError struct {
	Field   string // "Probe.Spec.Period"
	Problem string // "is 0s: must be at least 1ms"
}

func (e *FieldError) Error() string { return e.Field + " " + e.Problem }

func invalid(field, format string, args ...any) error {
	return &FieldError{field, fmt.Sprintf(format, args...)}
}

func check(p *Probe) error {
	switch {
	case int(p.Kind) >= len(probe.Kinds):
		return invalid("Probe.Kind", "is %d: must be one of %v", p.Kind, probe.Kinds)
	case p.Handler == nil, isNil(p.Handler):
		return invalid("Probe.Handler", "is nil")
	case p.Spec.InitialDelay < 0:
		return invalid("Probe.Spec.InitialDelay", "is %v: must not be negative", p.Spec.InitialDelay)
	case p.Spec.ErrorPolicy > probe.CountAsFailure:
		return invalid("Probe.Spec.ErrorPolicy", "is %d: must be Discard or CountAsFailure", p.Spec.ErrorPolicy)
	case p.Target.Port < 0, p.Target.Port > math.MaxUint16:
		return invalid("Probe.Target.Port", "is %d: must be from 0 to %d", p.Target.Port, math.MaxUint16)
	case p.Target.Port != 0 && p.Target.Host == "" && p.Target.Unix == "" && hasNoIP(p.Task):
		return invalid("Probe.Target", "has no Host, and the state of Probe.Task no PodIP")
	case p.Spec.Period < minDuration:
		return invalid("Probe.Spec.Period", "is %v: must be at least %v", p.Spec.Period, minDuration)
	case p.Spec.Timeout > 0 && p.Spec.Timeout < minDuration:
		return invalid("Probe.Spec.Timeout", "is %v: must be at least %v, or negative for none", p.Spec.Timeout, minDuration)
	case p.Spec.UnhealthyPeriod != 0 && p.Spec.UnhealthyPeriod < minDuration:
		return invalid("Probe.Spec.UnhealthyPeriod", "is %v: must be 0, or at least %v", p.Spec.UnhealthyPeriod, minDuration)
	case !(p.Spec.Jitter >= 0 && p.Spec.Jitter <= 1):
		return invalid("Probe.Spec.Jitter", "is %v: must be from 0 to 1", p.Spec.Jitter)
	case p.Spec.Initial != probe.Unknown && p.Spec.Initial != probe.Success && p.Spec.Initial != probe.Failure:
		return invalid("Probe.Spec.Initial", "is %v: must be Unknown, Success or Failure", p.Spec.Initial)
	case p.Spec.Initial != probe.Unknown && p.Kind != probe.Readiness:
		return invalid("Probe.Spec.Initial", "is only for readiness probes")
	case p.Spec.SuccessThreshold < 0:
		return invalid("Probe.Spec.SuccessThreshold", "is %d: must not be negative", p.Spec.SuccessThreshold)
	case p.Spec.FailureThreshold < 0:
		return invalid("Probe.Spec.FailureThreshold", "is %d: must not be negative", p.Spec.FailureThreshold)
	}
	return nil
}

// isNil reports whether h is a nil function or pointer, with which each attempt would panic.
func isNil(h probe.Handler) bool {
	v := reflect.ValueOf(h)
	return (v.Kind() == reflect.Func || v.Kind() == reflect.Pointer) && v.IsNil()
}

// hasNoIP reports whether t is running without a PodIP, the default host of targets.
func hasNoIP(t *worker.Task) bool {
	s := t.State()
	return s.Running && s.PodIP == ""
}
