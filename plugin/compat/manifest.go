package compat

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/daeace23/prober/internal/semantic"
	"github.com/daeace23/prober/plugin"
)

// identity compares the name, and how the plugin runs.
func identity(old, next *plugin.Manifest) (all []Change) {
	add := func(level semantic.Level, area Area, field, was, is string) {
		if was != is {
			all = append(all, Change{area, field, fmt.Sprintf("is %.80q in place of %.80q", is, was), level})
		}
	}
	add(semantic.Major, Runtime, "name", old.Name, next.Name)
	add(semantic.Major, Runtime, "runtime", string(cmp.Or(old.Runtime, plugin.Wasm)), string(cmp.Or(next.Runtime, plugin.Wasm)))
	add(semantic.Minor, Runtime, "mode", string(old.Mode), string(next.Mode))
	add(semantic.Minor, Runtime, "isolation", string(old.Isolation), string(next.Isolation))
	policy := semantic.Minor
	if next.ErrorPolicy == plugin.PolicyFailure { // errors of the plugin restart containers
		policy = semantic.Major
	}
	add(policy, Runtime, "errorPolicy", string(old.ErrorPolicy), string(next.ErrorPolicy))
	if next.Mode == plugin.Command {
		add(semantic.Minor, Runtime, "exitCodes", string(old.ExitCodes), string(next.ExitCodes))
	}
	if next.ABI > old.ABI {
		all = append(all, Change{ABI, "abi", fmt.Sprintf("is %d in place of %d: older hosts do not load it", next.ABI, old.ABI), semantic.Major})
	}
	return append(all, limits(old.Limits, next.Limits)...)
}

// limits compares the limits that the manifests ask for. A lower limit of the operator applies anyway.
func limits(old, next plugin.Limits) (all []Change) {
	before, after := plugin.ExplainLimits(old, plugin.Limits{}), plugin.ExplainLimits(next, plugin.Limits{})
	for i, l := range after {
		if l.Value != before[i].Value {
			all = append(all, Change{Runtime, "limits." + string(l.Name), fmt.Sprintf("is %s in place of %s", l.Value, before[i].Value), semantic.Minor})
		}
	}
	return all
}

// metrics compares the documented metrics by name.
func metrics(old, next []plugin.MetricDoc) (all []Change) {
	added := slices.DeleteFunc(slices.Clone(next), func(m plugin.MetricDoc) bool { return slices.ContainsFunc(old, named(m.Name)) })
	for _, m := range old {
		field := "metrics." + m.Name
		at := slices.IndexFunc(next, named(m.Name))
		if at >= 0 {
			if next[at].Unit != m.Unit {
				all = append(all, Change{Metrics, field, fmt.Sprintf("the unit is %.40q in place of %.40q", next[at].Unit, m.Unit), semantic.Major})
			}
			continue
		}
		text := "was removed"
		same := func(n plugin.MetricDoc) bool { return n.Unit == m.Unit && n.Help == m.Help && m.Help != "" }
		if at := slices.IndexFunc(added, same); at >= 0 {
			text = "was renamed to " + added[at].Name
			added = slices.Delete(added, at, at+1)
		}
		all = append(all, Change{Metrics, field, text, semantic.Major})
	}
	for _, m := range added {
		all = append(all, Change{Metrics, "metrics." + m.Name, "is new", semantic.Minor})
	}
	return all
}

func named(name string) func(plugin.MetricDoc) bool {
	return func(m plugin.MetricDoc) bool { return m.Name == name }
}

// requests compares the requested capabilities and patterns. A new one is breaking unless it is optional, since
// the operator must grant it.
func requests(old, next []plugin.Request) (all []Change) {
	for _, r := range next {
		field := "requests." + r.Capability
		before := slices.DeleteFunc(slices.Clone(old), func(o plugin.Request) bool { return o.Capability != r.Capability })
		level := semantic.Major
		if r.Optional {
			level = semantic.Minor
		}
		c, _ := plugin.CapabilityNamed(r.Capability)
		switch {
		case len(before) == 0 && c.Target: // without a pattern, it is for the target, which needs no grant
			all = append(all, Change{Grants, field, "is requested", semantic.Minor})
		case len(before) == 0:
			all = append(all, Change{Grants, field, "is requested", level})
		case !r.Optional && !c.Target && !slices.ContainsFunc(before, func(o plugin.Request) bool { return !o.Optional }):
			all = append(all, Change{Grants, field, "is not optional", semantic.Major})
		}
		for _, pattern := range r.Patterns() {
			isNew := !slices.ContainsFunc(before, func(o plugin.Request) bool { return covered(o, pattern) })
			if isNew && (len(before) > 0 || c.Target) && !isTarget(pattern) {
				all = append(all, Change{Grants, field, fmt.Sprintf("%.200s is requested", pattern), level})
			}
		}
	}
	return append(all, dropped(old, next)...)
}

// isTarget reports whether a pattern is for the target, which is always granted.
func isTarget(pattern string) bool {
	g, err := plugin.ParseGrant(pattern)
	return err == nil && g.Is("target")
}

// covered reports whether a request already has a pattern.
func covered(r plugin.Request, pattern string) bool {
	c, _ := plugin.CapabilityNamed(r.Capability)
	return slices.ContainsFunc(r.Patterns(), func(p string) bool { return p == pattern || p == c.Grant })
}

// dropped returns the capabilities that the next version does not request.
func dropped(old, next []plugin.Request) (all []Change) {
	for _, o := range old {
		if !slices.ContainsFunc(next, func(r plugin.Request) bool { return r.Capability == o.Capability }) {
			all = append(all, Change{Grants, "requests." + o.Capability, "is not requested anymore", semantic.Patch})
		}
	}
	return all
}

// imports compares the imported functions. Older hosts may lack new ones.
func imports(old, next map[string][]string) (all []Change) {
	if old == nil || next == nil {
		return nil
	}
	for _, module := range slices.Sorted(maps.Keys(next)) {
		for _, name := range next[module] {
			if !slices.Contains(old[module], name) {
				all = append(all, Change{ABI, module + "." + name, "is imported", semantic.Minor})
			}
		}
	}
	return all
}
