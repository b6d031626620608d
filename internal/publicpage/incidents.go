package publicpage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/agent/notify/format"
)

// Lately is how long incidents are published after their end.
const Lately = 21 * 24 * time.Hour

// Incident is probes that began to fail together.
type Incident struct {
	ID    string // is stable
	Cause string // "" if it is not published
	Parts []Part // the published probes, at least one
	Notes []Note // the oldest first
}

// Part is a probe of an incident.
type Part struct {
	Name  string // of the probe
	Since time.Time
	Until time.Time // zero while it fails
	Cause string    // "" if it is not published
}

// Note is what a person has written about an incident.
type Note struct {
	Time time.Time
	Text string
}

// start returns when the first part began.
func (n *Incident) start() time.Time {
	return slices.MinFunc(n.Parts, func(a, b Part) int { return a.Since.Compare(b.Since) }).Since
}

// end returns when the last part ended; zero if one fails.
func (n *Incident) end() (end time.Time) {
	for i := range n.Parts {
		until := n.Parts[i].Until
		if until.IsZero() {
			return time.Time{}
		}
		if until.After(end) {
			end = until
		}
	}
	return end
}

// incidents returns the incidents that are not too old: first those that continue, then the newest.
func (p *Page) incidents() (all []*Incident) {
	for i := range p.Incidents {
		n := &p.Incidents[i]
		if end := n.end(); end.IsZero() || p.Until.Sub(end) <= Lately {
			all = append(all, n)
		}
	}
	slices.SortStableFunc(all, func(a, b *Incident) int {
		return cmp.Or(fromBool(b.end().IsZero())-fromBool(a.end().IsZero()), b.start().Compare(a.start()), strings.Compare(a.ID, b.ID))
	})
	return all
}

// incidentView is an incident.
type incidentView struct {
	Title, Cause, Lasted string
	Open                 bool
	Start, End           moment
	Parts                []partView
	More                 int
	Notes                []noteView
}

// partView is a probe of an incident.
type partView struct{ Name, Text, Cause string }

// noteView is a note.
type noteView struct {
	Time moment
	Text string
}

// view returns what the page shows of n at a time.
func (n *Incident) view(now time.Time) incidentView {
	start, end := n.start(), n.end()
	v := incidentView{Cause: clean(n.Cause, maxText), Open: end.IsZero(), Start: moment{start}, End: moment{end}, More: max(len(n.Parts)-maxNames, 0)}
	if v.Open {
		end = now
	}
	v.Lasted = format.Span(max(end.Sub(start), 0))
	var names []string
	for _, p := range n.Parts[:min(len(n.Parts), maxNames)] {
		text := "fails"
		if !p.Until.IsZero() {
			text = "recovered after " + format.Span(max(p.Until.Sub(p.Since), 0))
		}
		names = append(names, clean(p.Name, maxName))
		v.Parts = append(v.Parts, partView{clean(p.Name, maxName), text, clean(p.Cause, maxText)})
	}
	for _, note := range n.Notes {
		v.Notes = append(v.Notes, noteView{moment{note.Time}, clean(note.Text, maxNote)})
	}
	v.Title = namesText(names, len(n.Parts))
	switch {
	case !v.Open:
		v.Title += " failed"
	case len(n.Parts) == 1:
		v.Title += " fails"
	default:
		v.Title += " fail"
	}
	return v
}

// namesText returns the first names of count.
func namesText(names []string, count int) string {
	const most = 3
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := count - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// lines returns the incident as lines of text.
func (v *incidentView) lines() (all []string) {
	times := "from " + v.Start.Text() + " to " + v.End.Text()
	if v.Open {
		times = "from " + v.Start.Text() + ", continues"
	}
	all = append(all, times+": "+v.Lasted)
	if v.Cause != "" {
		all = append(all, v.Cause)
	}
	for _, p := range v.Parts {
		text := p.Name + " " + p.Text
		if p.Cause != "" {
			text += ": " + p.Cause
		}
		all = append(all, text)
	}
	if v.More > 0 {
		all = append(all, fmt.Sprintf("and %d more", v.More))
	}
	for _, note := range v.Notes {
		all = append(all, note.Time.Text()+": "+note.Text)
	}
	return all
}
