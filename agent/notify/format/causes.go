package format

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/daeace23/prober/core/states"
)

// Cause is a cause of failing probes of a [Message].
type Cause struct {
	Reason string `json:"reason,omitempty"`
	// Text is the text of one of the probes, without the name of its target. Numbers differ between them.
	Text  string `json:"text,omitempty"`
	Count int    `json:"count"` // of the probes
}

const (
	maxCauses        = 5  // in a message
	maxCountedCauses = 50 // further ones are not counted
	maxTitleCauses   = 2
)

// countCause counts the cause of a failing probe.
func (m *Message) countCause(p *Probe) {
	text := withoutTarget(p.Text)
	i := slices.IndexFunc(m.causes, func(c Cause) bool { return c.Reason == p.Reason && states.Alike(c.Text, text) })
	switch {
	case i >= 0:
		m.causes[i].Count++
	case p.Reason+text != "" && len(m.causes) < maxCountedCauses:
		m.causes = append(m.causes, Cause{p.Reason, text, 1})
	}
}

// commonCauses returns the most frequent causes, if probes share one; the first one first of equal counts.
func (m *Message) commonCauses() []Cause {
	all := slices.Clone(m.causes)
	slices.SortStableFunc(all, func(a, b Cause) int { return cmp.Compare(b.Count, a.Count) })
	if len(all) == 0 || all[0].Count < 2 {
		return nil
	}
	return all[:min(len(all), maxCauses)]
}

// causeTitle returns the most frequent causes for a title, such as "connection refused (38), 503 (2)"; "" if most
// failing probes have others.
func (m *Message) causeTitle() string {
	var parts []string
	n := 0
	for _, c := range m.Causes[:min(len(m.Causes), maxTitleCauses)] {
		text := strings.TrimPrefix(cmp.Or(c.Text, c.Reason), httpStatus)
		parts, n = append(parts, fmt.Sprintf("%s (%d)", Clean(text, maxTitleTarget), c.Count)), n+c.Count
	}
	if failing := m.Counts.Failure + m.Counts.Unknown + m.Counts.Warning; failing <= maxTitleNames || 2*n < failing {
		return ""
	}
	return strings.Join(parts, ", ")
}
