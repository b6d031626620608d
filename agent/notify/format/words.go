package format

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/daeace23/prober/config"
)

// Limits of a title, in characters.
const (
	maxTitleName   = 100
	maxTitleCause  = 100
	maxTitleTarget = 60
	maxTitleNames  = 3 // names of probes
)

// look is the symbol and the color of a state, in sRGB.
type look struct {
	symbol string
	color  int
}

// looks has the looks of the states, of a probe that is well, and of a test.
var looks = map[string]look{
	"failure": {"🔴", 0xd32f2f}, "unknown": {"⚪", 0x757575}, "warning": {"🟡", 0xf9a825}, "success": {"🟢", 0x2e7d32}, Test: {"🔵", 0x1976d2},
}

// hex returns the color as in CSS.
func (l look) hex() string { return fmt.Sprintf("#%06x", l.color) }

// look returns the look of the worst state of m.
func (m *Message) look() look {
	if m.Status == Test {
		return looks[Test]
	}
	return looks[m.Severity()]
}

// severity returns the present state of p: its state, or "success" if it does not fail any more.
func (p *Probe) severity() string {
	if p.Status == Failing {
		return p.State
	}
	return "success"
}

// look returns the look of the present state of p.
func (p *Probe) look() look { return looks[p.severity()] }

// verbs has what a target, another probe, and several of them do, by state or status. The star is the place of
// "still ".
var verbs = map[string]struct{ target, probe, several string }{
	"failure": {"is *down", "*fails", "*fail"},
	"unknown": {"is *unknown", "is *unknown", "are *unknown"},
	"warning": {"*warns", "*warns", "*warn"},
	Resolved:  {"is up again", "succeeds again", "are well again"},
	Removed:   {"is removed", "is removed", "are removed"},
}

// presentState returns the state of a failing probe, or the status of another one: a key of verbs.
func (p *Probe) presentState() string {
	if p.Status == Failing {
		return p.State
	}
	return p.Status
}

// isTarget reports whether p is a target, a push or an endpoint of prober.yaml, which its pod names.
func (p *Probe) isTarget() bool {
	return p.Kind == "readiness" && (p.Container == "target" || p.Container == p.Handler && (p.Handler == "push" || p.Handler == "endpoint"))
}

// subject returns what p is about: a target, or a container.
func (p *Probe) subject() string {
	name := p.Pod
	if !p.isTarget() {
		name += "/" + p.Container
	}
	if p.Namespace != "default" && p.Namespace != config.DefaultTargetNamespace {
		name = p.Namespace + "/" + name
	}
	return Clean(name, maxTitleName)
}

// sentence returns the state of p, such as "shop-checkout is down" or "web/app liveness fails".
func (p *Probe) sentence(still string) string {
	v := verbs[p.presentState()]
	if p.Flaps != nil {
		v.target, v.probe = "*flaps", "*flaps"
	}
	if p.isTarget() {
		return p.subject() + " " + strings.Replace(v.target, "*", still, 1)
	}
	return p.subject() + " " + p.Kind + " " + strings.Replace(v.probe, "*", still, 1)
}

// httpStatus begins the output of the http handler, as the kubelet's does.
const httpStatus = "HTTP probe failed with statuscode: "

// because returns the cause of p with its target, such as "503 from GET https://shop.example/".
func (p *Probe) because() string {
	target := Clean(p.Target, maxTitleTarget)
	cause := Clean(withoutTarget(cmp.Or(p.Text, p.Reason)), maxTitleCause)
	status, ok := strings.CutPrefix(p.Text, httpStatus)
	switch {
	case cause == "" || target == "":
		return cause + target
	case ok:
		return Clean(status, maxTitleCause) + " from " + target
	default:
		return cause + " (" + target + ")"
	}
}

// withoutTarget returns the text of an error of Go's net packages without the beginning, which names the
// target.
func withoutTarget(text string) string {
	for {
		head, rest, ok := strings.Cut(text, ": ")
		if !ok || !(strings.HasPrefix(head, `Get "`) || strings.HasPrefix(head, "dial ") || head == "connect") {
			return text
		}
		text = rest
	}
}

// headline returns the state and the duration of p, such as "🔴 shop-checkout is down for 4 min".
func (p *Probe) headline() string { return p.look().symbol + " " + p.sentence("") + p.lasted() }

// lasted returns " for 4 min" or, if p does not fail any more, " after 4 min".
func (p *Probe) lasted() string {
	if p.Status == Failing {
		return " for " + span(p.duration())
	}
	return " after " + span(p.duration())
}

// span returns a duration in its two largest units.
func span(d time.Duration) string {
	units := []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}
	for i, u := range units[:3] {
		if d < u.length {
			continue
		}
		text := fmt.Sprint(int64(d/u.length), " ", u.name)
		if n := d % u.length / units[i+1].length; n > 0 && u.length > time.Minute {
			text += fmt.Sprint(" ", int64(n), " ", units[i+1].name)
		}
		return text
	}
	return fmt.Sprint(int64(d/time.Second), " s")
}

// SetTitle sets the title and the causes of m. It must be called after all probes were added.
func (m *Message) SetTitle() {
	m.Causes = m.commonCauses()
	if len(m.Probes) == 1 && m.Omitted == 0 {
		m.Title = m.Probes[0].title(m.still())
	} else {
		m.Title = m.summary()
	}
}

func (m *Message) still() string {
	if m.Repeated {
		return "still "
	}
	return ""
}

// title returns a title such as "shop-checkout is down: 503 from GET https://shop.example/ for 4 min".
func (p *Probe) title(still string) string {
	title, lasted := p.sentence(still), p.lasted()
	if p.Status != Failing {
		title, lasted = title+lasted, ""
	}
	if because := p.because(); because != "" {
		title += ": " + because
	}
	return title + lasted
}

// summary returns a title such as "3 of shop fail, 1 is up again: checkout, cart, search and 1 more".
func (m *Message) summary() string {
	of := " of " + m.groupName()
	if of == " of " {
		of = " probes"
	}
	var parts []string
	for _, c := range []struct {
		n    int
		word string
	}{{m.Counts.Failure, "failure"}, {m.Counts.Unknown, "unknown"}, {m.Counts.Warning, "warning"}, {m.Counts.Resolved, Resolved}, {m.Counts.Removed, Removed}} {
		if c.n == 0 {
			continue
		}
		verb := verbs[c.word].several
		if c.n == 1 {
			verb = map[string]string{Resolved: "is well again"}[c.word]
			verb = cmp.Or(verb, verbs[c.word].probe)
		}
		parts = append(parts, fmt.Sprint(c.n, of, " ", strings.Replace(verb, "*", m.still(), 1)))
		of = ""
	}
	title, names := strings.Join(parts, ", "), m.names()
	if causes := m.causeTitle(); causes != "" {
		return title + ": " + causes
	}
	if len(names) == 0 {
		return title
	}
	title += ": " + strings.Join(names[:min(len(names), maxTitleNames)], ", ")
	if more := len(names) + m.Omitted - maxTitleNames; more > 0 && len(names) >= maxTitleNames {
		title += fmt.Sprintf(" and %d more", more)
	}
	return title
}

// groupName returns the values of the groupBy fields; "" without groups.
func (m *Message) groupName() string {
	var values []string
	for _, field := range []string{"namespace", "pod", "container", "kind", "handler"} {
		if value := m.Group[field]; value != "" {
			values = append(values, Clean(value, maxTitleName))
		}
	}
	for _, field := range slices.Sorted(maps.Keys(m.Group)) {
		if value := m.Group[field]; value != "" && strings.HasPrefix(field, config.LabelPrefix) {
			values = append(values, Clean(value, maxTitleName))
		}
	}
	return strings.Join(values, "/")
}

// names returns the different subjects of the listed probes.
func (m *Message) names() (names []string) {
	for i := range m.Probes {
		if name := m.Probes[i].subject(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

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
		{"explain", p.Explain, true}, {"pause", p.Pause, true},
	}
	return slices.DeleteFunc(all, func(f fact) bool { return f.text == "" })
}

// flaps returns how often p has failed; "" if it does not flap.
func (p *Probe) flaps() string {
	if p.Flaps == nil {
		return ""
	}
	return fmt.Sprintf("%d failures since %s, at present %s", p.Flaps.Count, p.Flaps.Since.Format(clock), p.Flaps.State)
}

func (p *Probe) name() string {
	return fmt.Sprintf("%s/%s %s %s", p.Namespace, p.Pod, p.Container, p.Kind)
}

// cause returns the reason and the text of p; "" if it has none.
func (p *Probe) cause() string { return strings.Trim(p.Reason+": "+p.Text, ": ") }

// clock is the layout of times for people.
const clock = "2006-01-02 15:04:05 MST"

// period returns when the incident of p began and ended, and what it was.
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
