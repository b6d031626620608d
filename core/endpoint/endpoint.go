// Package endpoint combines several checks into the health of one thing.
//
// A [Set] has endpoints by a key of the caller. An [Endpoint] has checks: probes, which a [group.Group] runs
// with the kubelet's rules; pushed checks, to which somebody reports results; and passive checks, to which
// the caller reports the outcomes of real traffic. A [Rule] makes the state of the endpoint from the states
// of its checks. An endpoint may depend on others: while one of those fails, it is unknown rather than
// failed.
//
//	set, err := endpoint.New[string](endpoint.Config{})
//	err = set.Put("shop", endpoint.Endpoint[string]{
//		Rule: endpoint.Rule{Mode: endpoint.AtLeast, Min: 2},
//		Checks: []endpoint.Check{
//			{Name: "http", Probe: &group.Probe{Handler: h, Spec: spec}},
//			{Name: "backup", Push: &endpoint.Push{Schedule: nightly, Grace: time.Hour}},
//			{Name: "traffic", Passive: &endpoint.Passive{Consecutive: 5}},
//		},
//		DependsOn: []string{"database"},
//	})
//	for change := range set.Subscribe(ctx) { … }
//
// The package is above core/group, and changes nothing of it: a probe stays a probe.
//
// endpoint.go has the configuration, set.go the set, put.go how endpoints are added, changed and removed.
// check.go has a check, and active.go, push.go and passive.go what its three kinds know. rule.go is the rule,
// and evaluate.go the state of an endpoint. streak.go has thresholds, cron.go schedules, deadline.go the times
// at which something changes by itself, depend.go the dependencies, changes.go the changes for readers.
package endpoint

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/probe"
)

// Endpoint is the configuration of one thing.
type Endpoint[K comparable] struct {
	Rule   Rule
	Checks []Check // at most [MaxChecks]
	// DependsOn are the keys of endpoints without which this one cannot work. While one of them is failing,
	// or unknown for that reason, a failure of this endpoint is the state unknown. An endpoint that is not in
	// the set does not fail.
	DependsOn []K
	// Initial is the state before the checks have decided one. The zero value is unknown.
	Initial states.State
	// Pool is a pool of [Config.Pools] whose bounds hold for the ejections of this endpoint; "" means none.
	Pool string
}

// MaxChecks is the maximum number of checks of an endpoint.
const MaxChecks = 64

// Check is one check of an endpoint. Exactly one of Probe, Push and Passive is set.
type Check struct {
	Name   string // unique within the endpoint
	Weight int    // 0 means 1

	// Probe is carried out by the group of the set, as a readiness probe whatever its Kind. Its Task may be
	// nil: then the check has a task of its own that runs. The Container of a task must be the name of the
	// check.
	Probe *group.Probe
	// Unhealthy is the period of Probe while the state of the check is failure, and Undecided its period while
	// a run of results has begun that may change the state. 0 means the period of its Spec.
	Unhealthy, Undecided time.Duration
	// Thresholds, if Of is set, decide the state of the check by the last results of Probe instead of the
	// thresholds of its Spec. Those still decide the result that the group has, which [Set.Explain] and
	// observers of ticks show.
	Thresholds Thresholds

	Push    *Push
	Passive *Passive

	// StartPeriod is the time in which failures of a new check do not count, unless it has succeeded in it.
	// It begins again when [Set.Put] gives the check another Probe.
	StartPeriod time.Duration
}

// check returns an error about the configuration.
func (e *Endpoint[K]) check(key K, pools map[string]*pool) error {
	if len(e.Checks) == 0 || len(e.Checks) > MaxChecks {
		return invalid("Checks", "has %d checks, and must have 1 to %d", len(e.Checks), MaxChecks)
	}
	total := 0
	for i := range e.Checks {
		if err := e.checkOne(i); err != nil {
			return err
		}
		total += cmp.Or(e.Checks[i].Weight, 1)
	}
	if err := e.Rule.Check(total); err != nil {
		return err
	}
	if _, ok := pools[e.Pool]; !ok && e.Pool != "" {
		return invalid("Pool", "%q is none of Config.Pools", e.Pool)
	}
	if e.Initial > states.Failure {
		return invalid("Initial", "is no state")
	}
	if slices.Contains(e.DependsOn, key) {
		return invalid("DependsOn", "names the endpoint itself")
	}
	return nil
}

// checkOne returns an error about one check.
func (e *Endpoint[K]) checkOne(i int) error {
	c := &e.Checks[i]
	field := func(name string) string { return fmt.Sprintf("Checks[%d].%s", i, name) }
	kinds := 0
	for _, set := range []bool{c.Probe != nil, c.Push != nil, c.Passive != nil} {
		if set {
			kinds++
		}
	}
	switch {
	case c.Name == "":
		return invalid(field("Name"), "is empty")
	case slices.ContainsFunc(e.Checks[:i], func(o Check) bool { return o.Name == c.Name }):
		return invalid(field("Name"), "%q is the name of another check", c.Name)
	case kinds != 1:
		return invalid(field("Probe"), "exactly one of Probe, Push and Passive must be set, not %d", kinds)
	case c.Probe != nil && isNil(c.Probe.Handler):
		return invalid(field("Probe.Handler"), "is nil")
	case c.Probe != nil && c.Probe.Task != nil && c.Probe.Task.Subject.Container != c.Name:
		return invalid(field("Probe"), "its task is called %q", c.Probe.Task.Subject.Container)
	case c.Weight < 0 || c.Weight > maxWeight:
		return invalid(field("Weight"), "is %d, and must be from 0 to %d", c.Weight, maxWeight)
	case c.StartPeriod < 0:
		return invalid(field("StartPeriod"), "must not be negative")
	case c.Probe == nil && (c.Unhealthy != 0 || c.Undecided != 0):
		return invalid(field("Unhealthy"), "is only for a Probe")
	case c.Probe == nil && c.Thresholds != Thresholds{}:
		return invalid(field("Thresholds"), "is only for a Probe")
	case c.Thresholds.Of == 0 && c.Thresholds != Thresholds{}:
		return invalid(field("Thresholds"), "must have Of: the Spec of the Probe has thresholds of results in a row")
	case c.Unhealthy != 0 && c.Unhealthy < time.Millisecond, c.Undecided != 0 && c.Undecided < time.Millisecond:
		return invalid(field("Unhealthy"), "must be 0, or 1ms at least")
	}
	if problem := c.Thresholds.check(); problem != "" {
		return invalid(field("Thresholds"), "%s", problem)
	}
	if problem := c.Push.check(); problem != "" {
		return invalid(field("Push"), "%s", problem)
	}
	if problem := c.Passive.check(); problem != "" {
		return invalid(field("Passive"), "%s", problem)
	}
	if p := c.Passive; p != nil && p.UntilCheck != "" &&
		!slices.ContainsFunc(e.Checks, func(o Check) bool { return o.Name == p.UntilCheck && o.Probe != nil }) {
		return invalid(field("Passive.UntilCheck"), "%q is no check with a Probe", p.UntilCheck)
	}
	return nil
}

func isNil(h probe.Handler) bool {
	v := reflect.ValueOf(h)
	return !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Func || v.Kind() == reflect.Map) && v.IsNil()
}

// maxWeight keeps sums of weights small.
const maxWeight = 1 << 20

func invalid(field, format string, args ...any) error {
	return &group.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}
