package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/daeace23/prober/agent/states"
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
	maxProbes   = 100 // that are listed; formats list fewer
	maxText     = 300 // characters of a text of a target
	maxName     = 253 // characters of a name
	maxTextKept = 512 // bytes of a text in a book
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

// sender has what the messages of an agent have in common.
type sender struct{ host, externalURL string }

func newSender(externalURL string) *sender {
	host, _ := os.Hostname()
	return &sender{host: clean(host, maxName), externalURL: externalURL}
}

// groupID returns the ID of a group: of names only, so that it is the same after a restart.
func groupID(receiver, group string) string {
	host, _ := os.Hostname()
	sum := sha256.Sum256([]byte(strings.Join([]string{host, receiver, group}, "\x00")))
	return "prober-" + hex.EncodeToString(sum[:12])
}

// message returns the message about items of groups, of which there is at least one.
func (s *sender) message(receiver string, groups []plan, items []*item, now time.Time) *Message {
	m := &Message{
		Version: Version, Receiver: receiver, ID: groups[0].id, Status: Resolved, Repeated: true, Host: s.host, Time: now.UTC().Truncate(time.Millisecond),
		Group: make(map[string]string), Probes: []Probe{}, URL: s.externalURL,
	}
	if len(groups) == 1 {
		for name, value := range groups[0].labels {
			m.Group[name] = clean(value, maxName)
		}
	} else {
		m.ID = groupID(receiver, "several")
	}
	for _, it := range items {
		p := s.probe(it, now)
		m.count(&p)
		m.Repeated = m.Repeated && it.state == it.told && !it.owed
		if len(m.Probes) < maxProbes {
			m.Probes = append(m.Probes, p)
		} else {
			m.Omitted++
		}
	}
	m.Title = m.title()
	return m
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
		return word + ": " + p.name()
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
	title := again + strings.Join(parts, ", ")
	for _, field := range []string{"namespace", "pod", "container", "kind", "handler"} {
		if value := m.Group[field]; value != "" {
			title += ", " + field + " " + value
		}
	}
	return title
}

// severity returns the state of the worst probe of m: "failure", "unknown", "warning", or "success".
func (m *Message) severity() string {
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

// head returns what p is, on one line: "failure: default/web app readiness (http) for 5m0s".
func (p *Probe) head() string {
	word := p.Status
	if word == Failing {
		word = p.State
	}
	text := fmt.Sprintf("%s: %s (%s) for %s", word, p.name(), p.Handler, p.duration())
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

func (s *sender) probe(it *item, now time.Time) Probe {
	p := Probe{
		Namespace: clean(it.Namespace, maxName), Pod: clean(it.Pod, maxName), Container: clean(it.Container, maxName), Kind: it.Kind.String(),
		Handler: clean(it.handler, maxName), Status: Failing, State: it.state.String(), New: it.told == quiet, Since: it.since.UTC().Truncate(time.Millisecond),
		Reason: clean(it.reason, maxName), Text: clean(it.text, maxText),
	}
	if it.times > 0 {
		p.Times = it.times + 1
	}
	if it.state != quiet && severity(it.worst) > severity(it.state) {
		p.Worst = it.worst.String()
	}
	end := now
	if it.state == quiet {
		end, p.Ended, p.State, p.Status = it.at, it.at.UTC().Truncate(time.Millisecond), ended(it).String(), Resolved
		if it.removed {
			p.Status = Removed
		}
	}
	p.DurationSeconds = int64(max(0, end.Sub(it.since)) / time.Second)
	p.Explain = fmt.Sprintf("prober explain -n %s %s/%s %s", p.Namespace, p.Pod, p.Container, p.Kind)
	if s.externalURL != "" {
		p.URL = s.externalURL + "/#/probe"
		for _, part := range []string{p.Namespace, p.Pod, p.Container, p.Kind} {
			p.URL += "/" + strings.ReplaceAll(url.QueryEscape(part), "+", "%20")
		}
	}
	return p
}

// ended returns the state of an incident that has ended.
func ended(it *item) states.State {
	if worst := worse(it.worst, it.told); worst != quiet {
		return worst
	}
	return states.Failure
}

// test returns a message that tests a receiver.
func (s *sender) test(receiver string, now time.Time) *Message {
	return &Message{
		Version: Version, Receiver: receiver, ID: groupID(receiver, "test"), Status: Test, Title: "test message of prober to " + receiver,
		Host: s.host, Time: now.UTC().Truncate(time.Millisecond), Group: map[string]string{}, Probes: []Probe{}, URL: s.externalURL,
	}
}

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
