// Package format makes the texts that receivers of notifications get of a [Message]. Targets have written
// some of its texts: [Clean] removes what they may not have, and each format escapes what has a meaning in it.
// Read message.go first.
package format

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Version is the version of the JSON of a [Message]. Fields are added under the same version.
const Version = "1"

// The values of [Message.Status] and [Probe.Status].
const (
	Failing  = "failing"
	Resolved = "resolved"
	Removed  = "removed" // the probe is gone
	Test     = "test"    // of a message alone
)

// Limits of a message.
const (
	maxProbes      = 100 // that are listed; formats list fewer
	MaxText        = 300 // characters of a text of a target
	MaxName        = 253 // characters of a name
	maxTitleTarget = 60  // characters of a target in a title
)

// Message is what a receiver is told, and the JSON of the format json and of commands. Texts in it have one
// line each, and no control characters.
type Message struct {
	Version  string `json:"version"`
	Receiver string `json:"receiver"`
	// ID is that of the group: messages about the same group have the same.
	ID string `json:"id"`
	// Status is "failing" while a probe of the group is not well, "resolved" when all are, and "test".
	Status string `json:"status"`
	// Repeated means that nothing is new.
	Repeated bool `json:"repeated,omitempty"`
	// Title is one line about all probes.
	Title string `json:"title"`
	// Host is the name of the host of the agent.
	Host string    `json:"host"`
	Time time.Time `json:"time"`
	// Group has the fields that the probes have in common, by `groupBy`.
	Group  map[string]string `json:"group"`
	Counts Counts            `json:"counts"`
	Probes []Probe           `json:"probes"`
	// Omitted is how many more probes the message is about.
	Omitted int `json:"omitted,omitempty"`
	// URL is the page of the agent, if it is known.
	URL string `json:"url,omitempty"`
}

// Counts are how many probes of a [Message] are in a state.
type Counts struct {
	Failure  int `json:"failure"`
	Warning  int `json:"warning"`
	Unknown  int `json:"unknown"`
	Resolved int `json:"resolved"`
	Removed  int `json:"removed"`
}

// Probe is a probe of a [Message].
type Probe struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Kind      string `json:"kind"`
	Handler   string `json:"handler"`
	// Target says what the probe probes, such as "GET https://shop.example/healthz"; "" if unknown.
	Target string `json:"target,omitempty"`
	// Status is "failing", "resolved" or "removed".
	Status string `json:"status"`
	// State is "failure", "warning" or "unknown"; the worst one, if Status is not "failing".
	State string `json:"state"`
	// Worst is a worse state in which it was since the last message.
	Worst string `json:"worst,omitempty"`
	// New means that the receiver was not told before.
	New   bool      `json:"new,omitempty"`
	Since time.Time `json:"since"`
	Ended time.Time `json:"ended,omitzero"`
	// DurationSeconds is how long it has lasted.
	DurationSeconds int64 `json:"durationSeconds"`
	// Times is how often it has failed, if that is more than once since the last message.
	Times  int    `json:"times,omitempty"`
	Reason string `json:"reason,omitempty"`
	Text   string `json:"text,omitempty"`
	// Explain is a command that shows the cause.
	Explain string `json:"explain"`
	URL     string `json:"url,omitempty"`
}

// Add adds a probe to m, of which the first hundred are listed.
func (m *Message) Add(p *Probe) {
	m.count(p)
	if len(m.Probes) < maxProbes {
		m.Probes = append(m.Probes, *p)
	} else {
		m.Omitted++
	}
}

func (m *Message) count(p *Probe) {
	switch {
	case p.Status == Resolved:
		m.Counts.Resolved++
	case p.Status == Removed:
		m.Counts.Removed++
	case p.State == "warning":
		m.Counts.Warning++
	case p.State == "unknown":
		m.Counts.Unknown++
	default:
		m.Counts.Failure++
	}
	if p.Status == Failing {
		m.Status = Failing
	}
}

// SetTitle sets the title of m, to which all probes were added.
func (m *Message) SetTitle() { m.Title = m.title() }

func (m *Message) title() string {
	again := ""
	if m.Repeated {
		again = "still "
	}
	if len(m.Probes) == 1 && m.Omitted == 0 {
		p := &m.Probes[0]
		word := p.Status
		if word == Failing {
			word = again + p.State
		}
		return strings.TrimSuffix(word+": "+p.name()+", "+Clean(p.Target, maxTitleTarget), ", ")
	}
	var parts []string
	for _, c := range []struct {
		n    int
		word string
	}{{m.Counts.Failure, "failure"}, {m.Counts.Unknown, "unknown"}, {m.Counts.Warning, "warning"}, {m.Counts.Resolved, Resolved}, {m.Counts.Removed, Removed}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.word))
		}
	}
	var title strings.Builder
	title.WriteString(again + strings.Join(parts, ", "))
	for _, field := range []string{"namespace", "pod", "container", "kind", "handler"} {
		if value := m.Group[field]; value != "" {
			title.WriteString(", " + field + " " + value)
		}
	}
	return title.String()
}

// Severity returns the state of the worst probe of m: "failure", "unknown", "warning", or "success".
func (m *Message) Severity() string {
	switch {
	case m.Counts.Failure > 0:
		return "failure"
	case m.Counts.Unknown > 0:
		return "unknown"
	case m.Counts.Warning > 0:
		return "warning"
	default:
		return "success"
	}
}

func (p *Probe) name() string {
	return fmt.Sprintf("%s/%s %s %s", p.Namespace, p.Pod, p.Container, p.Kind)
}

// head returns what p is, on one line: "failure: default/web app readiness (tcp 10.0.0.7:80) for 5m0s".
func (p *Probe) head() string {
	word := p.Status
	if word == Failing {
		word = p.State
	}
	text := fmt.Sprintf("%s: %s (%s) for %s", word, p.name(), cmp.Or(p.Target, p.Handler), p.duration())
	if word != p.State {
		text += ", was " + p.State
	}
	if p.Worst != "" {
		text += ", was " + p.Worst
	}
	if p.Times > 1 {
		text += fmt.Sprintf(", %d times", p.Times)
	}
	return text + ", since " + p.Since.UTC().Format(time.RFC3339)
}

// cause returns the reason and the text of p; "" if it has none.
func (p *Probe) cause() string { return strings.Trim(p.Reason+": "+p.Text, ": ") }

func (p *Probe) duration() time.Duration { return time.Duration(p.DurationSeconds) * time.Second }

// first returns m with at most n of its probes.
func (m *Message) first(n int) *Message {
	if len(m.Probes) <= n {
		return m
	}
	c := *m
	c.Probes, c.Omitted = m.Probes[:n], m.Omitted+len(m.Probes)-n
	return &c
}

// within returns what render makes of m, with as many of its probes as fit into most bytes, and at most
// probes of them.
func (m *Message) within(probes, most int, render func(*Message) ([]byte, error)) ([]byte, error) {
	for n := min(probes, len(m.Probes)); ; n /= 2 {
		body, err := render(m.first(n))
		if err != nil || len(body) <= most || n == 0 {
			return body, err
		}
	}
}

// more says how many probes are not listed; "" if all are.
func (m *Message) more() string {
	if m.Omitted == 0 {
		return ""
	}
	return fmt.Sprintf("and %d more: prober get probes", m.Omitted)
}
