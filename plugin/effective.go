package plugin

import (
	"slices"
	"strings"
)

// Effective is one requested pattern, and the grants that overlap with it.
type Effective struct {
	Capability string `json:"capability"`
	Asked      string `json:"asked"`
	// Granted are the grants that overlap with Asked. The plugin may reach the addresses that both
	// cover, and none if Granted is empty.
	Granted  []string `json:"granted"`
	Optional bool     `json:"optional,omitempty"` // the plugin loads without it
}

// EffectiveGrants returns each requested pattern of a manifest with the grants that overlap with it.
// It ignores denials, which further restrict a plugin. It leaves out patterns that do not parse; a
// plugin with such a pattern cannot be loaded.
func EffectiveGrants(requests []Request, grants []Grant) (all []Effective) {
	for _, r := range requests {
		capability, _ := CapabilityNamed(r.Capability)
		for _, text := range r.Patterns() {
			f := Effective{Capability: r.Capability, Asked: text, Granted: []string{}, Optional: r.Optional}
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

// Overlaps reports whether both patterns can match the same dial or look-up. A name may resolve to any
// address, so it overlaps with every address.
func (g Grant) Overlaps(other Grant) bool {
	switch {
	case g.scheme == "unix" || other.scheme == "unix":
		return g.scheme == other.scheme && g.path == other.path
	case g.scheme == fileScheme || other.scheme == fileScheme:
		return g.scheme == other.scheme && overlappingFiles(segments(g.path), segments(other.path))
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
