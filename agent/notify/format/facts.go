package format

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
)

// fact is a property of a probe that every format shows. A code is a command, or a text that a target may have
// written.
type fact struct {
	name, text string
	code       bool
}

// String returns the fact as a line.
func (f fact) String() string { return f.name + ": " + f.text }

// facts returns the facts of p, the most important ones first. Its headline and its URL are not among them.
func (p *Probe) facts() []fact {
	all := []fact{
		{"flaps", p.flaps(), false}, {"cause", p.cause(), true}, {"target", cmp.Or(p.Target, p.Handler), true}, {"since", p.period(), false}, {"probe", p.name(), false},
		{"explain", p.Explain, true},
	}
	if p.Status == Failing {
		all = append(all, fact{"pause", p.Pause, true})
	}
	all = append(all, fact{"owner", p.labelled("owner", "team"), true}, fact{"runbook", p.labelled("runbook", "runbook_url"), false})
	return slices.DeleteFunc(all, func(f fact) bool { return f.text == "" })
}

// flaps returns how often p has failed; "" if it does not flap.
func (p *Probe) flaps() string {
	if p.Flaps == nil {
		return ""
	}
	return fmt.Sprintf("%d failures since %s, at present %s", p.Flaps.Count, p.Flaps.Since.Format(clock), p.Flaps.State)
}

// labelled returns the value of the first of some labels that p has; "" if it has none.
func (p *Probe) labelled(names ...string) string {
	for _, name := range names {
		if value := p.Labels[name]; value != "" {
			return Clean(value, MaxText)
		}
	}
	return ""
}

func (p *Probe) name() string {
	return fmt.Sprintf("%s/%s %s %s", p.Namespace, p.Pod, p.Container, p.Kind)
}

// cause returns the reason and the text of p; "" if it has none.
func (p *Probe) cause() string { return strings.Trim(p.Reason+": "+p.Text, ": ") }

// clock is the layout of times for people.
const clock = "2006-01-02 15:04:05 MST"

// period returns the begin and the end of the incident of p, and its state.
func (p *Probe) period() string {
	text := p.Since.Format(clock)
	if !p.Ended.IsZero() {
		text += " until " + p.Ended.Format(clock)
	}
	if p.Status != Failing {
		text += ", was " + p.State
	}
	if p.Worst != "" {
		text += ", was " + p.Worst
	}
	if p.Times > 1 {
		text += fmt.Sprintf(", %d times", p.Times)
	}
	return text
}

func (p *Probe) duration() time.Duration { return time.Duration(p.DurationSeconds) * time.Second }

// footer returns the number of omitted probes, and the host.
func (m *Message) footer() string {
	return strings.TrimPrefix(m.omittedLine()+", prober on "+m.Host, ", ")
}

// page returns the page to open for m: the only probe's, or the agent's; "" if unknown.
func (m *Message) page() string {
	if len(m.Probes) == 1 && m.Omitted == 0 {
		return m.Probes[0].URL
	}
	return m.URL
}

// plain returns the probes of m as plain text, without the title.
func (m *Message) plain() string {
	var b strings.Builder
	for i := range m.Probes {
		p := &m.Probes[i]
		fmt.Fprintf(&b, "%s\n", p.headline())
		for _, f := range p.facts() {
			fmt.Fprintf(&b, "  %s\n", f)
		}
		if p.URL != "" {
			fmt.Fprintf(&b, "  %s\n", p.URL)
		}
		b.WriteByte('\n')
	}
	b.WriteString(m.footer())
	return b.String()
}

// units returns the length of text in UTF-16 units, which some services count. It is at least the number of
// characters.
func units(text string) (n int) {
	for _, r := range text {
		n += utf16.RuneLen(r)
	}
	return n
}

// cut returns the beginning of text with at most most UTF-16 units.
func cut(text string, most int) string {
	if units(text) <= most {
		return text
	}
	n := 0
	for i, r := range text {
		if n += utf16.RuneLen(r); n >= most {
			return text[:i] + "…"
		}
	}
	return text
}

// cutEscaped returns the beginning of text, escaped, with at most most UTF-16 units.
func cutEscaped(text string, most int, escape *strings.Replacer) string {
	for n := most; ; n = n * 9 / 10 {
		if escaped := escape.Replace(cut(text, n)); units(escaped) <= most {
			return escaped
		}
	}
}
