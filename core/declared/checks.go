package declared

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/probe"
)

// Checks is the Handler of a probe that combines several checks.
const Checks = "checks"

// Limits of a combined probe.
const (
	maxChecks = 16
	maxWeight = 1000
)

// Combined has the checks of one probe. They run together at each attempt, within its timeout, and the probe
// has one result: see endpoint.Rule.
type Combined struct {
	Needed  int     // sum of the weights of the checks that must succeed
	Checks  []Probe // sorted by Check; each has the container, the kind and the spec of the probe
	Weights []int   // of Checks, each at least 1
}

// checks returns the checks of c if it is combined, or else c itself, with their paths.
func (c *Probe) checks() []Probe {
	if c.Combined != nil {
		return c.Combined.Checks
	}
	one := *c
	one.Path = c.FieldPath()
	return []Probe{one}
}

// SpecPath returns the path of the probe with the period and the thresholds: for a check, of the probe that
// combines it.
func (c *Probe) SpecPath() *field.Path {
	if c.combined != nil {
		return c.combined
	}
	return c.FieldPath()
}

// severalChecks has the fields of a probe of the annotation that combines checks. At most one is set.
type severalChecks struct {
	All     map[string]json.RawMessage `json:"all"`
	Any     map[string]json.RawMessage `json:"any"`
	AtLeast *atLeastChecks             `json:"atLeast"`
}

type atLeastChecks struct {
	Min int32                      `json:"min"`
	Of  map[string]json.RawMessage `json:"of"`
}

// checksRule is one of the fields of severalChecks.
type checksRule struct {
	checks  map[string]json.RawMessage
	of      bool                // the checks are in the field "of"
	weighed bool                // a check may have a weight
	needed  func(total int) int // of the sum of the weights
}

// rule returns the field that combines checks; "" if there is none.
func (s *severalChecks) rule(path *field.Path, errs *field.ErrorList) (name string, r checksRule) {
	set := func(word string, next checksRule) {
		if name != "" {
			*errs = append(*errs, field.Forbidden(path.Child(word), "may not be set together with "+name))
			return
		}
		name, r = word, next
	}
	if s.All != nil {
		set("all", checksRule{checks: s.All, needed: func(total int) int { return total }})
	}
	if s.Any != nil {
		set("any", checksRule{checks: s.Any, needed: func(int) int { return 1 }})
	}
	if least := s.AtLeast; least != nil {
		set("atLeast", checksRule{checks: least.Of, of: true, weighed: true, needed: func(total int) int {
			if least.Min < 1 || int(least.Min) > total {
				*errs = append(*errs, field.Invalid(path.Child("atLeast", "min"), least.Min, fmt.Sprintf("must be from 1 to the sum of the weights, %d", total)))
			}
			return int(least.Min)
		}})
	}
	return name, r
}

// annotationCheck is one check of a combined probe. The configs of built-in handlers are decoded separately.
type annotationCheck struct {
	Plugin *pluginAction `json:"plugin"`
	Weight *int32        `json:"weight"`
}

// combine makes c a probe with the checks of r, at path of the annotation of a pod, in the container in. own
// means that c has a handler too, which is an error.
func (c *Probe) combine(r checksRule, own bool, in *v1.Container, path *field.Path, left *int, errs *field.ErrorList) {
	at := path
	if r.of {
		at = path.Child("of")
	}
	switch {
	case left == nil:
		*errs = append(*errs, field.Forbidden(path, "a target has one check: endpoints of prober.yaml combines targets"))
		return
	case own:
		*errs = append(*errs, field.Forbidden(path, "may not specify more than 1 handler type"))
		return
	case len(r.checks) == 0:
		*errs = append(*errs, field.Required(at, "at least one check"))
		return
	case len(r.checks) > maxChecks:
		*errs = append(*errs, field.TooMany(at, len(r.checks), maxChecks))
		return
	}
	combined, total := &Combined{}, 0
	for _, name := range slices.Sorted(maps.Keys(r.checks)) {
		check, weight := c.check(name, r, in, at.Key(name), left, errs)
		combined.Checks, combined.Weights = append(combined.Checks, check), append(combined.Weights, weight)
		total += weight
	}
	combined.Needed = r.needed(total)
	config, err := json.Marshal(combined.config())
	if err != nil {
		*errs = append(*errs, field.Invalid(path, field.OmitValueType{}, err.Error()))
	}
	c.Handler, c.Config, c.Combined = Checks, config, combined
}

// check parses one check of c.
func (c *Probe) check(name string, r checksRule, in *v1.Container, path *field.Path, left *int, errs *field.ErrorList) (Probe, int) {
	check := *c
	check.Path, check.combined, check.Check, check.Refers = path, c.Path, name, true
	for _, why := range validation.IsDNS1123Label(name) {
		*errs = append(*errs, field.Invalid(path, name, why))
	}
	var a annotationCheck
	actions, raw, list := builtinFields(r.checks[name], path)
	if list = append(list, decodeStrict(raw, &a, path, builtinNames()...)...); len(list) > 0 {
		*errs = append(*errs, list...)
		return check, 1
	}
	weight := 1
	switch {
	case a.Weight == nil:
	case !r.weighed:
		*errs = append(*errs, field.Forbidden(path.Child("weight"), "only the checks of atLeast have weights"))
	case *a.Weight < 1 || *a.Weight > maxWeight:
		*errs = append(*errs, field.Invalid(path.Child("weight"), *a.Weight, fmt.Sprintf("must be from 1 to %d", maxWeight)))
	default:
		weight = int(*a.Weight)
	}
	check.setHandlerOf(a.Plugin, actions, in, path, left, errs)
	return check, weight
}

// config returns the value of [Probe.Config]. Two combined probes have the same if and only if their checks
// are the same.
func (c *Combined) config() any {
	type check struct {
		Name    string          `json:"name"`
		Weight  int             `json:"weight"`
		Handler string          `json:"handler"`
		Config  json.RawMessage `json:"config"`
		Target  probe.Target    `json:"target,omitzero"`
	}
	all := make([]check, len(c.Checks))
	for i := range all {
		p := &c.Checks[i]
		all[i] = check{p.Check, c.Weights[i], p.Handler, p.Config, p.Target}
	}
	return struct {
		Needed int     `json:"needed"`
		Checks []check `json:"checks"`
	}{c.Needed, all}
}
