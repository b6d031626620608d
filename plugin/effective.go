package plugin

import (
	"slices"
	"strings"
)

// Force is one thing that a plugin asks for, and what was granted of it.
type Force struct {
	Capability string `json:"capability"`
	Asked      string `json:"asked"`
	// Granted are the grants that have something in common with what is asked for: what is
	// in both may be reached. None: nothing may.
	Granted  []string `json:"granted"`
	Optional bool     `json:"optional,omitempty"` // the plugin does without
}

// InForce says what comes of the requests of a manifest under the grants of an operator.
// What grants deny is taken away from it, and is not told here. Requests that are no
// patterns, with which no plugin is loaded, are left out.
func InForce(requests []Request, grants []Grant) (all []Force) {
	for _, r := range requests {
		capability, _ := CapabilityNamed(r.Capability)
		for _, text := range r.Patterns() {
			f := Force{Capability: r.Capability, Asked: text, Granted: []string{}, Optional: r.Optional}
			pattern, err := ParseGrant(text)
			if err != nil {
				continue
			}
			if capability.Target && text == targetGrant {
				f.Granted = []string{targetGrant}
			}
			for _, g := range grants {
				if !g.deny && g.Overlaps(pattern) && !slices.Contains(f.Granted, g.text) {
					f.Granted = append(f.Granted, g.text)
				}
			}
			all = append(all, f)
		}
	}
	return all
}

// Overlaps reports whether there can be a dial, or a look-up, that both patterns are
// about. A name may lead to any address, so that it overlaps with each.
func (g Grant) Overlaps(other Grant) bool {
	switch {
	case g.scheme == "unix" || other.scheme == "unix":
		return g.scheme == other.scheme && g.path == other.path
	case g.scheme != "" && other.scheme != "" && !covers(g.scheme, other.scheme) && !covers(other.scheme, g.scheme):
		return false
	}
	return g.host.overlaps(other.host) && overlappingPorts(g.ports, other.ports) && overlappingPaths(g.path, other.path)
}

func (h hostPattern) overlaps(other hostPattern) bool {
	switch {
	case h.any || other.any:
		return true
	case h.prefix.IsValid() && other.prefix.IsValid():
		return h.prefix.Overlaps(other.prefix)
	case h.prefix.IsValid() || other.prefix.IsValid():
		return true
	case h.suffix != "" && other.suffix != "":
		return strings.HasSuffix(h.suffix, other.suffix) || strings.HasSuffix(other.suffix, h.suffix)
	case h.suffix != "":
		return strings.HasSuffix(other.name, h.suffix)
	case other.suffix != "":
		return strings.HasSuffix(h.name, other.suffix)
	}
	return h.name == other.name
}

func overlappingPorts(a, b []portRange) bool {
	if len(a) == 0 || len(b) == 0 {
		return true
	}
	return slices.ContainsFunc(a, func(p portRange) bool {
		return slices.ContainsFunc(b, func(q portRange) bool { return p.first <= q.last && q.first <= p.last })
	})
}

func overlappingPaths(a, b string) bool {
	if a == "" || b == "" {
		return true
	}
	above, allOfA := strings.CutSuffix(a, "*")
	below, allOfB := strings.CutSuffix(b, "*")
	switch {
	case allOfA && allOfB:
		return strings.HasPrefix(above, below) || strings.HasPrefix(below, above)
	case allOfA:
		return strings.HasPrefix(b, above)
	case allOfB:
		return strings.HasPrefix(a, below)
	}
	return a == b
}
