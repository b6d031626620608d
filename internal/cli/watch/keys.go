package watch

import (
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/internal/explain"
)

// Command is an operation outside the screen that a key requests.
type Command struct {
	Do    string // "quit", "details", "trigger", "pause" or "resume"; "" for nothing
	Probe api.ProbeStatus
	Pause string // duration of the pause; "" without end
}

// Key handles a key press: the name of the key, and the text that it types, "" for none.
func (m *Model) Key(name, text string) Command {
	switch {
	case name == "ctrl+c":
		return Command{Do: "quit"}
	case m.help:
		m.help = false
		return Command{}
	case m.prompt != nil:
		return m.promptKey(name, text)
	case name == "?":
		m.help = true
		return Command{}
	case m.details != nil:
		return m.detailsKey(name)
	default:
		return m.tableKey(name)
	}
}

func (m *Model) tableKey(name string) Command {
	switch name {
	case "q":
		return Command{Do: "quit"}
	case "esc":
		m.setFilter("")
	case "/":
		m.prompt = &prompt{label: "filter", text: m.filter, done: func(string) Command { return Command{} }}
	case "s":
		m.sort = (m.sort + 1) % len(sorts)
		m.release()
	case "enter":
		if r := m.current(); r != nil {
			m.details = &details{probe: r.probe}
			return Command{Do: "details", Probe: r.probe}
		}
	case "t", "r", "p":
		return m.act(map[string]string{"t": "trigger", "r": "resume", "p": "pause"}[name])
	default:
		by := m.distance(name, m.cursor, len(m.order))
		if m.cursor+by <= 0 && by < 0 {
			m.release()
			break
		}
		m.cursor, m.moved = m.cursor+by, m.moved || by != 0
		m.scroll()
	}
	return Command{}
}

// release ends the hold of the order: the cursor goes to the first row.
func (m *Model) release() {
	m.cursor, m.moved = 0, false
	m.arrange()
}

// distance returns the number of lines by which a key moves the cursor.
func (m *Model) distance(name string, at, lines int) int {
	switch name {
	case "up", "k":
		return -1
	case "down", "j":
		return 1
	case "pgup", "ctrl+b":
		return -m.page()
	case "pgdown", "ctrl+f", "space":
		return m.page()
	case "home", "g":
		return -at
	case "end", "G":
		return lines - 1 - at
	default:
		return 0
	}
}

// act returns the command of an action on the row at the cursor. A pause asks for its length first.
func (m *Model) act(action string) Command {
	r := m.current()
	if r == nil {
		return Command{}
	}
	if m.cfg.ReadOnly != "" {
		m.Note(m.cfg.ReadOnly)
		return Command{}
	}
	c := Command{Do: action, Probe: r.probe}
	if action != "pause" {
		return c
	}
	m.prompt = &prompt{label: fmt.Sprintf("pause %s/%s %s for (empty: until it is resumed)", explain.OneLine(r.probe.Pod), explain.OneLine(r.probe.Container), explain.OneLine(r.probe.Kind)), text: "10m", proposed: true, done: func(text string) Command {
		c.Pause = text
		return c
	}}
	return Command{}
}

func (m *Model) promptKey(name, text string) Command {
	p := m.prompt
	proposed := p.proposed
	filters := p.label == "filter"
	switch {
	case name == "enter":
		m.prompt = nil
		return p.done(p.text)
	case name == "esc":
		m.prompt = nil
		if filters {
			m.setFilter("")
		}
		return Command{}
	case name == "backspace":
		_, size := utf8.DecodeLastRuneInString(p.text)
		p.text = p.text[:len(p.text)-size]
	case name == "ctrl+u":
		p.text = ""
	case len(p.text)+len(text) <= maxInput && !slices.ContainsFunc([]rune(text), func(r rune) bool { return !unicode.IsPrint(r) }):
		if proposed && text != "" {
			p.text = ""
		}
		p.text += text
	}
	p.proposed = proposed && text == "" && name != "backspace"
	if filters {
		m.setFilter(p.text)
	}
	return Command{}
}

func (m *Model) setFilter(text string) {
	m.filter = text
	m.release()
}

func (m *Model) detailsKey(name string) Command {
	d := m.details
	switch name {
	case "q", "esc", "enter", "left":
		m.details = nil
	default:
		d.top = max(min(d.top+m.distance(name, d.top, len(d.lines)), m.lastTop(len(d.lines))), 0)
	}
	return Command{}
}
