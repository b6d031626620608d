package watch

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/internal/explain"
)

const (
	shownTicks = 20 // number of shown ticks of a probe
	maxRows    = 200_000
	// keepStale is how long the model keeps probes that a new connection has not sent yet.
	keepStale = 5 * time.Second
	// showNotes is how long the result of an action is shown.
	showNotes = 5 * time.Second
	maxInput  = 200 // characters that a user can type
)

// Model is the state of the screen. [Model.Apply], [Model.Key] and the Set methods change it, and
// [Model.View] renders it. It is not safe for concurrent use.
type Model struct {
	cfg    *Config
	width  int
	height int
	now    time.Time
	link   Link

	rows     map[string]*row
	order    []*row         // rows that match the filter, sorted
	nameSize int            // length of the longest name in order
	several  bool           // whether there is more than one namespace
	counts   map[string]int // by [api.ProbeStatus.Counted]

	cursor, top int    // in order
	selected    string // id of the row at the cursor
	moved       bool   // whether the user reads below the first row; the cursor stays at its row, and the order is held
	filter      string
	sort        int // in sorts

	prompt  *prompt
	details *details
	help    bool // whether the keys are shown
	note    string
	noteAt  time.Time
}

// row is a probe.
type row struct {
	id    string
	probe api.ProbeStatus
	ticks []tick // oldest first, shownTicks at most
	epoch int    // epoch of the connection that sent it last
	asked bool   // whether its history has been requested
}

// tick is the shown part of a past tick.
type tick struct {
	result  string
	seconds float64
	at      time.Time
}

// prompt is a line that the user types.
type prompt struct {
	label string
	text  string
	// proposed means that text is a proposal. The first character that the user types replaces it.
	proposed bool
	done     func(text string) Command
}

// details is the screen of one probe.
type details struct {
	probe api.ProbeStatus
	lines []string
	top   int
}

// sorts are the orders of the table.
var sorts = []struct {
	name string
	less func(a, b *row) int
}{
	{"state", func(a, b *row) int { return cmp.Compare(rank(a), rank(b)) }},
	{"duration", func(a, b *row) int { return cmp.Compare(took(b), took(a)) }},
	{"name", func(*row, *row) int { return 0 }},
}

// rank orders states by severity, the worst first.
func rank(r *row) int { return slices.Index(counted, r.probe.Counted()) }

// counted are the counted states, the worst first.
var counted = []string{"failure", "warning", "unknown", api.Paused, api.InMaintenance, "success"}

func took(r *row) float64 {
	if r.probe.Last == nil {
		return -1
	}
	return r.probe.Last.DurationSeconds
}

// New returns a model without probes.
func New(cfg *Config, now time.Time) *Model {
	return &Model{cfg: cfg, width: 80, height: 24, now: now, rows: make(map[string]*row), counts: make(map[string]int)}
}

// Resize sets the size of the terminal.
func (m *Model) Resize(width, height int) {
	m.width, m.height = max(width, 1), max(height, 1)
	m.scroll()
}

// Apply applies changes, the state of the connection, and the time.
func (m *Model) Apply(changes []Change, link Link, now time.Time) {
	m.now, m.link = now, link
	members, stale := false, false // whether rows came or went, or have another place
	for i := range changes {
		member, moved := m.apply(&changes[i])
		members, stale = members || member, stale || moved
	}
	if link.Connected && now.Sub(link.Since) > keepStale {
		for key, r := range m.rows {
			if r.epoch < link.Epoch {
				delete(m.rows, key)
				members = true
			}
		}
	}
	if members || stale || len(changes) > 0 && m.filter != "" {
		m.arrange()
	}
	if len(changes) > 0 || members {
		m.count()
	}
}

// apply applies a change. It reports whether a row was added or removed, and whether its place may have changed.
func (m *Model) apply(c *Change) (member, moved bool) {
	key := id(&c.Probe)
	r, known := m.rows[key]
	switch {
	case c.Removed:
		delete(m.rows, key)
		return known, false
	case !known && len(m.rows) >= maxRows:
		return false, false
	case !known:
		r = &row{id: key}
		m.rows[key] = r
	}
	before := row{probe: r.probe}
	r.probe, r.epoch = c.Probe, m.link.Epoch
	r.probe.History = nil
	if last := c.Probe.Last; last != nil && (len(r.ticks) == 0 || last.Time.After(r.ticks[len(r.ticks)-1].at)) {
		r.add(tick{last.Result, last.DurationSeconds, last.Time})
	}
	return !known, sorts[m.sort].less(&before, r) != 0
}

func (r *row) add(t tick) {
	if len(r.ticks) == shownTicks {
		r.ticks = append(r.ticks[:0], r.ticks[1:]...)
	}
	r.ticks = append(r.ticks, t)
}

// SetHistory sets the past ticks of a probe.
func (m *Model) SetHistory(p *api.ProbeStatus) {
	r, ok := m.rows[id(p)]
	if !ok {
		return
	}
	newer := r.ticks
	r.ticks = nil
	for _, t := range slices.Backward(p.History) {
		r.add(tick{t.Result, t.DurationSeconds, t.Time})
	}
	for _, t := range newer {
		if len(r.ticks) == 0 || t.at.After(r.ticks[len(r.ticks)-1].at) {
			r.add(t)
		}
	}
}

// Wanted returns at most n probes on the screen whose history must be requested. It returns each probe
// only once.
func (m *Model) Wanted(n int) (probes []api.ProbeStatus) {
	if !m.link.Connected {
		return nil
	}
	for _, r := range m.visible() {
		if len(probes) < n && !r.asked {
			r.asked = true
			probes = append(probes, r.probe)
		}
	}
	return probes
}

// Note shows a text for some seconds.
func (m *Model) Note(text string) { m.note, m.noteAt = explain.OneLine(text), m.now }

// SetDetails sets the text about a probe.
func (m *Model) SetDetails(p *api.ProbeStatus, text string) {
	d := m.details
	if d == nil || id(&d.probe) != id(p) {
		return
	}
	d.lines = nil
	for line := range strings.Lines(text) {
		d.lines = append(d.lines, explain.OneLine("|" + line)[1:]) // keeps the indentation
	}
	d.top = min(d.top, m.lastTop(len(d.lines)))
}

// Shown returns the probe whose details are on the screen; nil for none.
func (m *Model) Shown() *api.ProbeStatus {
	if m.details == nil {
		return nil
	}
	return &m.details.probe
}

// arrange filters and sorts the rows. While the user reads, rows keep their order, and further rows follow.
func (m *Model) arrange() {
	before := make(map[*row]int)
	if m.moved {
		for i, r := range m.order {
			before[r] = i - len(m.order)
		}
	}
	m.order, m.nameSize = m.order[:0], 0
	words := strings.Fields(strings.ToLower(m.filter))
	namespace := ""
	m.several = false
	for _, r := range m.rows {
		m.several = m.several || namespace != "" && r.probe.Namespace != namespace
		namespace = r.probe.Namespace
		if r.matches(words) {
			m.order = append(m.order, r)
		}
	}
	less := sorts[m.sort].less
	slices.SortFunc(m.order, func(a, b *row) int {
		return cmp.Or(cmp.Compare(before[a], before[b]), less(a, b), strings.Compare(a.id, b.id))
	})
	for _, r := range m.order {
		m.nameSize = max(m.nameSize, len(m.name(r)))
	}
	if at := slices.IndexFunc(m.order, func(r *row) bool { return r.id == m.selected }); at >= 0 && m.moved {
		m.cursor = at
	}
	m.scroll()
}

// matches reports whether the shown text of r contains all words.
func (r *row) matches(words []string) bool {
	if len(words) == 0 {
		return true
	}
	p := &r.probe
	text := strings.ToLower(strings.Join([]string{p.Namespace, "/", p.Pod, "/", p.Container, " ", p.Kind, " ", p.Handler, " ", p.Now(), " ", message(p, time.TimeOnly, time.Local)}, ""))
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}

func (m *Model) count() {
	clear(m.counts)
	for _, r := range m.rows {
		m.counts[r.probe.Counted()]++
	}
}

// page returns the number of rows on the screen: all lines except the two of the header and the last.
func (m *Model) page() int { return max(m.height-3, 1) }

func (m *Model) lastTop(lines int) int { return max(lines-m.page()-1, 0) }

// scroll keeps the cursor in the table, and the table on the screen.
func (m *Model) scroll() {
	m.cursor = max(min(m.cursor, len(m.order)-1), 0)
	m.top = max(min(m.top, m.cursor, len(m.order)-m.page()), m.cursor-m.page()+1, 0)
	if m.cursor < len(m.order) {
		m.selected = m.order[m.cursor].id
	}
}

func (m *Model) visible() []*row {
	top := min(m.top, len(m.order))
	return m.order[top:min(top+m.page(), len(m.order))]
}

// current returns the row at the cursor; nil for none.
func (m *Model) current() *row {
	if m.cursor >= len(m.order) {
		return nil
	}
	return m.order[m.cursor]
}
