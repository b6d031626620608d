package config

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// GroupLabel is the label of a target's pod with the name of its group.
const GroupLabel = "prober.dev/target-group"

// Selector is a place in prober.yaml that selects probes: an entry of a field match, or a dependency on a group of
// targets.
type Selector struct {
	Text string // as in the file

	Line int // in the file
	Path string

	match ProbeMatch
	group string       // instead of match: the group of targets
	kinds []probe.Kind // of an SLO; nil selects all
	over  func(now time.Time) bool
}

// Equal reports whether s and other have the same text at the same place.
func (s *Selector) Equal(other *Selector) bool {
	return s.Line == other.Line && s.Path == other.Path && s.Text == other.Text
}

// Empty returns a message that s selects none of some probes, such as "of the agent".
func (s *Selector) Empty(file, probes string) string {
	return (&plugin.FieldError{File: file, Line: s.Line, Field: s.Path, Err: fmt.Errorf("%s selects no probe %s", s.Text, probes)}).Error()
}

func (s *Selector) selects(p *ProbeFacts) bool {
	if s.group != "" {
		return p.Labels[GroupLabel] == s.group
	}
	return s.match.Matches(p) && (s.kinds == nil || slices.ContainsFunc(s.kinds, func(k probe.Kind) bool { return k.String() == p.Kind }))
}

// text returns an entry as it may be written in the file.
func (m *ProbeMatch) text() string {
	labels := ""
	if m.Labels != nil {
		labels = m.Labels.String()
	}
	var all []string
	for _, f := range [][2]string{{"namespace", m.Namespace}, {"pod", m.Pod}, {"container", m.Container}, {"kind", m.Kind}, {"handler", m.Handler}, {"labels", labels}} {
		if f[1] != "" {
			all = append(all, f[0]+": "+f[1])
		}
	}
	return "{" + strings.Join(all, ", ") + "}"
}

// EmptySelectors returns the selectors that select none of probes; none if there are no probes. It leaves out
// maintenance windows that are over.
func (a *Agent) EmptySelectors(now time.Time, probes iter.Seq[*ProbeFacts]) []Selector {
	n := 0
	empty := slices.DeleteFunc(slices.Clone(a.Selectors), func(s Selector) bool { return s.over != nil && s.over(now) })
	for p := range probes {
		n++
		empty = slices.DeleteFunc(empty, func(s Selector) bool { return s.selects(p) })
	}
	if n == 0 {
		return nil
	}
	return empty
}

// HasLists reports whether a group of targets gets its targets from elsewhere than this file. Then a selector may
// select no probe for good reasons.
func (a *Agent) HasLists() bool {
	return slices.ContainsFunc(a.Targets, func(g TargetGroup) bool { return !g.isStatic() })
}

// addDependencies adds the dependencies on groups of targets to the selectors.
func (a *Agent) addDependencies() {
	groups := make(map[string]bool)
	for i := range a.Targets {
		groups[a.Targets[i].Name] = true
	}
	for _, n := range a.nodes() {
		for _, r := range n.dependsOn {
			if groups[r.Name] {
				a.Selectors = append(a.Selectors, Selector{Text: fmt.Sprintf("%q", r.Name), Line: r.Line, Path: r.Path, group: r.Name})
			}
		}
	}
}
