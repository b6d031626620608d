package format

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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

// verbs has what a target, another probe, one of several, and several of them do, by state or status. The star
// is the place of "still ".
var verbs = map[string]struct{ target, probe, one, several string }{
	"failure": {"is *down", "*fails", "*fails", "*fail"},
	"unknown": {"is *unknown", "is *unknown", "is *unknown", "are *unknown"},
	"warning": {"*warns", "*warns", "*warns", "*warn"},
	Resolved:  {"is up again", "succeeds again", "is well again", "are well again"},
	Removed:   {"is removed", "is removed", "is removed", "are removed"},
}

// presentState returns the state of a failing probe, or the status of another one: a key of verbs.
func (p *Probe) presentState() string {
	if p.Status == Failing {
		return p.State
	}
	return p.Status
}

// IsTarget reports whether p is a target, a push or an endpoint of prober.yaml, which its pod names.
func (p *Probe) IsTarget() bool {
	return p.Kind == "readiness" && (p.Container == "target" || p.Container == p.Handler && (p.Handler == "push" || p.Handler == "endpoint"))
}

// subject returns what p is about: a target, or a container.
func (p *Probe) subject() string {
	name := p.Pod
	if !p.IsTarget() {
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
	if p.IsTarget() {
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
	if p.DurationSeconds == 0 {
		return "" // it has just begun
	}
	if p.Status == Failing {
		return " for " + Span(p.duration())
	}
	return " after " + Span(p.duration())
}

// Span returns a duration in its two largest units.
func Span(d time.Duration) string {
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

// classes has the states and statuses of probes in the order of a title.
var classes = []string{"failure", "unknown", "warning", Resolved, Removed}

// SetTitle sets the title and the causes of m. It must be called after all probes were added.
//
// A title is such as "checkout is down: 503 from GET https://shop.example/ for 4 min; 2 are well again" or
// "3 of shop fail: checkout, cart, search; 1 is unknown".
func (m *Message) SetTitle() {
	m.Causes = m.commonCauses()
	of := " of " + m.groupName()
	if of == " of " {
		of = " probes"
	}
	var parts []string
	for _, class := range classes {
		n, probes := m.Counts.of(class), m.probesIn(class)
		switch {
		case n == 0:
			continue
		case len(parts) > 0:
			parts = append(parts, fmt.Sprint(n, " ", m.verb(class, n)))
		case n == 1 && len(probes) == 1:
			parts = append(parts, probes[0].title(m.still()))
		default:
			parts = append(parts, fmt.Sprint(n, of, " ", m.verb(class, n))+cmp.Or(m.causeTitle(), ": "+names(probes, n)))
		}
	}
	m.Title = strings.Join(parts, "; ")
}

// of returns the number of probes in a class.
func (c *Counts) of(class string) int {
	return map[string]int{"failure": c.Failure, "unknown": c.Unknown, "warning": c.Warning, Resolved: c.Resolved, Removed: c.Removed}[class]
}

// probesIn returns the listed probes in a class.
func (m *Message) probesIn(class string) (probes []*Probe) {
	for i := range m.Probes {
		if m.Probes[i].presentState() == class {
			probes = append(probes, &m.Probes[i])
		}
	}
	return probes
}

// verb returns what n probes in a class do.
func (m *Message) verb(class string, n int) string {
	verb := verbs[class].several
	if n == 1 {
		verb = verbs[class].one
	}
	return strings.Replace(verb, "*", m.still(), 1)
}

func (m *Message) still() string {
	if m.Repeated {
		return "still "
	}
	return ""
}

// names returns the first different subjects of n probes, of which some are listed, such as
// "checkout, cart, search and 2 more".
func names(listed []*Probe, n int) string {
	var shown []string
	for _, p := range listed {
		if name := p.subject(); slices.Contains(shown, name) {
			n--
		} else if len(shown) < maxTitleNames {
			shown = append(shown, name)
			n--
		}
	}
	text := strings.Join(shown, ", ")
	if n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// title returns a title about one probe.
func (p *Probe) title(still string) string {
	if p.Status == Failing {
		return p.summary(p.sentence(still)) + p.lasted()
	}
	return p.summary(p.sentence(still) + p.lasted())
}

// summary returns a sentence about p with its cause.
func (p *Probe) summary(sentence string) string {
	if because := p.because(); because != "" {
		return sentence + ": " + because
	}
	return sentence
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
