package publicpage

import (
	"cmp"
	"slices"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/incidents"
)

// Limits of the failures. Each probe has a share, so that one that flaps does not hide the others.
const (
	Lately       = 21 * 24 * time.Hour // how long failures are published after their end
	MaxOfProbe   = 20                  // failures of a probe
	maxIncidents = 200                 // incidents on the page
	maxNames     = 10                  // names of an incident or a maintenance window
	maxFeed      = 50                  // incidents in the feed
)

// Failures are the failures of the last weeks. The zero value has none.
type Failures struct {
	all  []failure
	more bool // there are others, beyond the limits
}

// failure is a time in which a probe failed.
type failure struct {
	probe      *Probe // only its name and its group
	start, end time.Time
	seconds    float64
	cause      string
	earlier    bool // it began before the history
}

// Add adds the failures of a probe, the newest first, which ended at most [Lately] before until. A failure that
// began at since may have begun before. The texts are published only if causes is set.
func (f *Failures) Add(name, group string, of []api.Incident, since, until time.Time, causes bool) {
	p := &Probe{Name: name, Group: group}
	for i := range of {
		n := &of[i]
		if !n.End.IsZero() && until.Sub(n.End) > Lately {
			break
		}
		if i >= MaxOfProbe {
			f.more = true
			break
		}
		next := failure{probe: p, start: n.Start, end: n.End, seconds: n.DurationSeconds, earlier: !n.Start.After(since)}
		if causes {
			next.cause = cmp.Or(n.Text, n.Reason)
		}
		f.all = append(f.all, next)
	}
}

// incident is failures of a group that begin together.
type incident struct {
	group      string
	start, end time.Time // end is zero if a failure continues
	earlier    bool
	parts      []part // in the order of their begins
}

// part is a probe of an incident.
type part struct {
	name    string
	seconds float64
	times   int
	ended   bool
	cause   string // of its first failure
}

// incidents returns the incidents, the newest first, and whether there are more failures.
func (f *Failures) incidents() (all []*incident, more bool) {
	slices.SortFunc(f.all, func(a, b failure) int {
		return cmp.Or(cmp.Compare(a.probe.Group, b.probe.Group), a.start.Compare(b.start), cmp.Compare(a.probe.Name, b.probe.Name))
	})
	var last *incident
	var begun time.Time // begin of the newest failure of last
	for i := range f.all {
		n := &f.all[i]
		if last == nil || last.group != n.probe.Group || n.start.Sub(begun) > incidents.Gap || n.start.Sub(last.start) > incidents.Spread {
			last = &incident{group: n.probe.Group, start: n.start, end: n.end, earlier: n.earlier}
			all = append(all, last)
		}
		begun = n.start
		last.add(n)
	}
	slices.SortFunc(all, func(a, b *incident) int { return cmp.Or(b.start.Compare(a.start), cmp.Compare(a.group, b.group)) })
	return all[:min(len(all), maxIncidents)], f.more || len(all) > maxIncidents
}

func (n *incident) add(f *failure) {
	if f.end.IsZero() || n.end.IsZero() {
		n.end = time.Time{}
	} else if f.end.After(n.end) {
		n.end = f.end
	}
	i := slices.IndexFunc(n.parts, func(p part) bool { return p.name == f.probe.Name })
	if i < 0 {
		i = len(n.parts)
		n.parts = append(n.parts, part{name: f.probe.Name, cause: f.cause})
	}
	p := &n.parts[i]
	p.seconds, p.times, p.ended = p.seconds+f.seconds, p.times+1, !f.end.IsZero()
}

// lasted returns the duration of the incident until now.
func (n *incident) lasted(now time.Time) time.Duration {
	if n.end.IsZero() {
		return now.Sub(n.start)
	}
	return n.end.Sub(n.start)
}
