package whatif

import (
	"slices"
	"time"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/worker"
)

// maintenance tells when probes enter and leave maintenance windows.
type maintenance struct {
	windows []config.Maintenance
	labels  func(pod string) map[string]string
	tell    func(i *worker.Info, in bool, now time.Time)

	edges  []edge // that have not passed, sorted
	open   []int  // number of spans of each window that contain the present time
	probes map[worker.Info]*maintained
}

// edge is the begin or the end of a span of a window.
type edge struct {
	at     time.Time
	window int
	begins bool
}

// maintained is a probe.
type maintained struct {
	matches []bool // by window
	in      int    // number of spans that contain the present time
}

// newMaintenance returns the windows of a configuration from start until a time. It calls tell for changes.
func newMaintenance(windows []config.Maintenance, start, until time.Time, labels func(pod string) map[string]string, tell func(i *worker.Info, in bool, now time.Time)) *maintenance {
	m := &maintenance{windows: windows, labels: labels, tell: tell, open: make([]int, len(windows)), probes: make(map[worker.Info]*maintained)}
	for n := range windows {
		begin, end := windows[n].Window.Next(start)
		for !begin.IsZero() && begin.Before(until) {
			m.edges = append(m.edges, edge{begin, n, true}, edge{end, n, false})
			begin, end = windows[n].Window.Next(end)
		}
	}
	slices.SortStableFunc(m.edges, func(a, b edge) int { return a.at.Compare(b.at) })
	return m
}

// advance tells the changes until a time.
func (m *maintenance) advance(until time.Time) {
	for len(m.edges) > 0 && !m.edges[0].at.After(until) {
		e := m.edges[0]
		m.edges = m.edges[1:]
		by := 1
		if !e.begins {
			by = -1
		}
		m.open[e.window] += by
		for i, p := range m.probes {
			if p.matches[e.window] {
				m.move(&i, p, by, e.at)
			}
		}
	}
}

// move changes the number of spans that contain the present time for a probe.
func (m *maintenance) move(i *worker.Info, p *maintained, by int, now time.Time) {
	was := p.in > 0
	if p.in += by; was != (p.in > 0) {
		m.tell(i, p.in > 0, now)
	}
}

// add adds a probe, unless it was added before. All edges until now have passed.
func (m *maintenance) add(i *worker.Info, now time.Time) {
	if m.probes[*i] != nil {
		return
	}
	p := &maintained{matches: make([]bool, len(m.windows))}
	m.probes[*i] = p
	facts := config.ProbeFacts{Namespace: i.Namespace, Pod: i.Pod, Container: i.Container, Kind: i.Kind.String(), Handler: i.Handler}
	if m.labels != nil {
		facts.Labels = m.labels(i.Namespace + "/" + i.Pod)
	}
	open := 0
	for n := range m.windows {
		if p.matches[n] = config.MatchesAny(m.windows[n].Match, &facts); p.matches[n] {
			open += m.open[n]
		}
	}
	m.move(i, p, open, now)
}
