package watch

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/internal/explain"
)

// View returns the screen. It has at most as many lines and columns as the terminal.
func (m *Model) View() string {
	var lines []string
	switch {
	case m.help:
		lines = m.helpView()
	case m.details != nil:
		lines = m.detailsView()
	default:
		lines = m.tableView()
	}
	if len(lines) > m.height {
		lines = append(lines[:m.height-1], lines[len(lines)-1])
	}
	return strings.Join(lines, "\n")
}

func (m *Model) tableView() []string {
	columns := m.columns()
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = fit(c.head, c.width, c.right)
	}
	lines := []string{m.head(), m.paint(bold, fit("  "+strings.Join(heads, "  "), m.width, false))}
	for i, r := range m.visible() {
		lines = append(lines, m.rowView(columns, r, m.top+i == m.cursor))
	}
	if len(m.order) == 0 && m.link.Epoch > 0 {
		text := "  no probe matches"
		if len(m.rows) == 0 {
			text = "  no probes"
		}
		lines = append(lines, fit(text, m.width, false))
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	return append(lines, m.foot())
}

// head returns the header: the agent, the connection and the counts.
func (m *Model) head() string {
	parts := []string{fmt.Sprintf("%d probes: %d success", len(m.rows), m.counts["success"])}
	for _, state := range []string{"warning", "failure", "unknown", api.Paused, api.InMaintenance} {
		if n := m.counts[state]; n > 0 || state == "failure" {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	server := "prober " + explain.OneLine(m.cfg.Server) + "  "
	if m.link.Connected {
		return m.paint(bold, fit(server+strings.Join(parts, ", "), m.width, false))
	}
	state := "connecting"
	if m.link.Epoch > 0 {
		state = "reconnecting"
	}
	if m.link.Err != "" {
		state += ": " + m.link.Err
	}
	return m.paint(warning, fit("prober "+state+"  "+strings.Join(parts, ", "), m.width, false))
}

// foot returns the last line.
func (m *Model) foot() string {
	switch {
	case m.help:
		return m.paint(dim, fit("any key: back", m.width, false))
	case m.prompt != nil:
		return fit(m.prompt.label+": "+m.prompt.text+"_", m.width, false)
	case m.note != "" && m.now.Sub(m.noteAt) < showNotes:
		return m.paint(warning, fit(m.note, m.width, false))
	case m.details != nil:
		return m.paint(dim, fit("esc back  j k scroll  ? keys", m.width, false))
	}
	keys := "q quit  ? keys  enter details  / filter  s sort: " + sorts[m.sort].name
	if m.moved {
		keys += " (held, g ends it)"
	}
	if m.cfg.ReadOnly == "" {
		keys += "  p pause  r resume  t trigger"
	}
	if len(m.order) > 0 {
		keys = fmt.Sprintf("%d/%d  ", m.cursor+1, len(m.order)) + keys
	}
	if m.filter != "" {
		keys = "filter: " + m.filter + "  " + keys
	}
	return m.paint(dim, fit(keys, m.width, false))
}

// helpKeys are the keys and their meanings.
var helpKeys = [][2]string{
	{"j k, arrows", "move; below the first row, the order is held"},
	{"space, ctrl+b", "a page down, a page up; also page down, page up"},
	{"g, G", "first row, last row; also home, end"},
	{"enter", "explain and describe the probe"},
	{"/", "show only rows with all words that you type"},
	{"esc", "go back, or show all rows"},
	{"s", "sort by state (failures first), duration or name"},
	{"p, r, t", "pause the probe for a time, resume it, trigger an attempt now"},
	{"q, ctrl+c", "quit"},
}

func (m *Model) helpView() []string {
	var lines []string
	for _, k := range helpKeys {
		lines = append(lines, ansi.Truncate(fmt.Sprintf("  %-14s %s", k[0], k[1]), m.width, m.ellipsis()))
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	return append(lines, m.foot())
}

func (m *Model) detailsView() []string {
	d := m.details
	lines := []string{m.head()}
	if d.lines == nil {
		lines = append(lines, "...")
	}
	for _, line := range d.lines[min(d.top, len(d.lines)):min(d.top+m.page()+1, len(d.lines))] {
		lines = append(lines, ansi.Truncate(line, m.width, m.ellipsis()))
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	return append(lines, m.foot())
}

// column is a column of the table.
type column struct {
	head  string
	width int
	right bool // aligned to the right
	cell  func(m *Model, r *row) string
}

const minMessage = 16

// columns returns the columns that fit on the terminal. The last one takes the remaining width.
func (m *Model) columns() []column {
	fixed := []column{
		{"PROBE", max(min(m.nameSize, 44), 12), false, (*Model).name},
		{"KIND", 9, false, func(_ *Model, r *row) string { return r.probe.Kind }},
		{"STATE", 7, false, func(_ *Model, r *row) string { return r.probe.Counted() }},
		{"RUN", 4, true, func(_ *Model, r *row) string { return fmt.Sprint(r.probe.Run) }},
		{"DURATION", 10, false, func(m *Model, r *row) string { return m.sparkline(r, 10) }},
		{"TOOK", 7, true, func(_ *Model, r *row) string { return tookText(r) }},
		{"LAST 20", shownTicks, true, func(m *Model, r *row) string { return m.strip(r) }},
		{"AGE", 4, true, func(m *Model, r *row) string { return m.age(r) }},
	}
	left := m.width - 2
	use := make([]bool, len(fixed))
	for _, i := range []int{0, 1, 2, 6, 7, 5, 3, 4} { // the most useful first
		if need := fixed[i].width + 2; i < 3 || left-need >= minMessage {
			use[i] = true
			left -= need
		}
	}
	var columns []column
	for i := range fixed {
		if use[i] {
			columns = append(columns, fixed[i])
		}
	}
	return append(columns, column{"MESSAGE", max(left, 0), false, func(_ *Model, r *row) string { return message(&r.probe, time.TimeOnly, time.Local) }})
}

func (m *Model) rowView(columns []column, r *row, current bool) string {
	marker := "  "
	if current {
		marker = "> "
	}
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = fit(explain.OneLine(c.cell(m, r)), c.width, c.right)
		if c.head == "STATE" && !current {
			cells[i] = m.paint(styleOf(r.probe.Counted()), cells[i])
		}
	}
	line := fit(marker+strings.Join(cells, "  "), m.width, false)
	switch {
	case current:
		return m.paint(reverse, line)
	case r.epoch < m.link.Epoch || !m.link.Connected:
		return m.paint(dim, ansi.Strip(line))
	default:
		return line
	}
}

func (m *Model) name(r *row) string {
	name := r.probe.Pod + "/" + r.probe.Container
	if m.several {
		name = r.probe.Namespace + "/" + name
	}
	return name
}

// message returns the reason for which a probe makes no attempts, or the message of the last attempt. layout and zone are
// for the end of a pause.
func message(p *api.ProbeStatus, layout string, zone *time.Location) string {
	switch {
	case p.Paused, p.Gate != "":
		return p.Activity(layout, zone)
	case p.Last != nil:
		return cmp.Or(p.Last.Error, p.Last.Output)
	default:
		return "no tick yet"
	}
}

func tookText(r *row) string {
	if r.probe.Last == nil {
		return ""
	}
	return explain.Round(time.Duration(r.probe.Last.DurationSeconds * float64(time.Second))).String()
}

func (m *Model) age(r *row) string {
	if r.probe.Last == nil {
		return ""
	}
	return duration.ShortHumanDuration(max(m.now.Sub(r.probe.Last.Time), 0))
}

// strip returns the results of the last ticks, the newest at the right.
func (m *Model) strip(r *row) string {
	marks := map[string]string{"success": "·", "warning": "▲", "failure": "█", "unknown": "?"}
	if m.cfg.ASCII {
		marks = map[string]string{"success": ".", "warning": "w", "failure": "F", "unknown": "?"}
	}
	var b strings.Builder
	for _, t := range r.ticks {
		b.WriteString(cmp.Or(marks[t.result], " "))
	}
	return b.String()
}

// sparkline returns the durations of the last n ticks, relative to the longest one.
func (m *Model) sparkline(r *row, n int) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	if m.cfg.ASCII {
		levels = []rune("_.-=+*#@")
	}
	ticks, longest := r.ticks[max(len(r.ticks)-n, 0):], 0.0
	for _, t := range ticks {
		longest = max(longest, t.seconds)
	}
	var b strings.Builder
	for _, t := range ticks {
		level := 0
		if longest > 0 {
			level = int(max(t.seconds, 0) / longest * float64(len(levels)-1))
		}
		b.WriteRune(levels[level])
	}
	return b.String()
}

func (m *Model) ellipsis() string {
	if m.cfg.ASCII {
		return "~"
	}
	return "…"
}

// fit pads or truncates text to width columns. text may have colors.
func fit(text string, width int, right bool) string {
	size := ansi.StringWidth(text)
	switch {
	case size > width:
		return fit(ansi.Truncate(text, width, ""), width, right) // a wide character may leave a column
	case right:
		return strings.Repeat(" ", width-size) + text
	default:
		return text + strings.Repeat(" ", width-size)
	}
}

// style is the color of a text: the parameters of the escape sequence SGR.
type style string

const (
	plain   style = ""
	bold    style = "1"
	dim     style = "2"
	reverse style = "7"
	good    style = "32"
	warning style = "33"
	bad     style = "31"
)

func styleOf(state string) style {
	return map[string]style{"success": good, "failure": bad, "unknown": warning, "warning": warning, api.Paused: dim, api.InMaintenance: dim}[state]
}

func (m *Model) paint(s style, text string) string {
	if !m.cfg.Color || s == plain {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[m"
}
