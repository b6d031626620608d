// Package format encodes a [Message] for each kind of receiver. Some of its texts come from targets: [Clean]
// removes dangerous characters, and each format escapes its own markup. Read message.go first.
package format

import (
	"cmp"
	"fmt"
	"time"
)

// Version is the version of the JSON of a [Message]. Fields are added under the same version.
const Version = "1"

// The values of [Message.Status] and [Probe.Status].
const (
	Failing  = "failing"
	Resolved = "resolved"
	Removed  = "removed" // the probe is gone
	Test     = "test"    // only of a message
)

// Limits of a message.
const (
	maxProbes = 100 // listed in a message; some formats list fewer
	MaxText   = 300 // characters of a text from a target
	MaxName   = 253 // characters of a name
)

// Message is the content of a notification. Its JSON is the body of the json format and the input of
// commands. Its texts are single lines without control characters. Its times are in the time zone of the
// receiver.
type Message struct {
	Version  string `json:"version"`
	Receiver string `json:"receiver"`
	// ID identifies the group. It is stable across messages and restarts.
	ID string `json:"id"`
	// Status is "failing" while a probe of the group is not well, "resolved" when all are well, or "test".
	Status string `json:"status"`
	// Repeated means that nothing has changed since the last message.
	Repeated bool `json:"repeated,omitempty"`
	// Title summarizes the probes in one line.
	Title string `json:"title"`
	// Host is the host name of the agent.
	Host string    `json:"host"`
	Time time.Time `json:"time"`
	// Group has the `groupBy` fields, which all probes share.
	Group  map[string]string `json:"group"`
	Counts Counts            `json:"counts"`
	// Causes are the most frequent causes of failing probes, if some share one. There are at most five.
	Causes []Cause `json:"causes,omitempty"`
	Probes []Probe `json:"probes"`
	// Omitted is the number of probes that are not listed.
	Omitted int `json:"omitted,omitempty"`
	// URL is the status page of the agent; "" if unknown.
	URL string `json:"url,omitempty"`
	// Most is the maximum number of listed probes; 0 means 100.
	Most int `json:"-"`

	causes []Cause // all, in the order of Add
}

// Counts has the number of probes of a [Message] by status.
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
	// Target is what the probe probes, such as "GET https://shop.example/healthz"; "" if unknown.
	Target string `json:"target,omitempty"`
	// Status is "failing", "resolved" or "removed".
	Status string `json:"status"`
	// State is "failure", "warning" or "unknown"; the worst one of the incident, if Status is not "failing".
	State string `json:"state"`
	// Worst is a worse state since the last message; "" if there was none.
	Worst string `json:"worst,omitempty"`
	// New means that this is the first message about the incident.
	New   bool      `json:"new,omitempty"`
	Since time.Time `json:"since"`
	Ended time.Time `json:"ended,omitzero"`
	// DurationSeconds is the duration of the incident, until now if it has not ended.
	DurationSeconds int64 `json:"durationSeconds"`
	// Times is the number of failures since the last message, if more than one.
	Times int `json:"times,omitempty"`
	// Flaps is set if the probe fails often. Further failures and ends are not sent before it is steady.
	Flaps  *Flaps `json:"flaps,omitempty"`
	Reason string `json:"reason,omitempty"`
	Text   string `json:"text,omitempty"`
	// Explain is a command that shows the cause, and Pause one that pauses the probe for an hour.
	Explain string `json:"explain"`
	Pause   string `json:"pause"`
	URL     string `json:"url,omitempty"`
	// Labels are the labels of the pod or the target when the incident began, see [Labels].
	Labels map[string]string `json:"labels,omitempty"`
}

// Flaps counts the failures of a probe that flaps.
type Flaps struct {
	Count int       `json:"count"`
	Since time.Time `json:"since"` // when the first of them began
	State string    `json:"state"` // of the probe now: "success", or a state of [Probe.State]
}

// Add adds a probe to m. Only the first [Message.Most] probes are listed; the others are counted.
func (m *Message) Add(p *Probe) {
	m.count(p)
	if len(m.Probes) < cmp.Or(m.Most, maxProbes) {
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
		m.countCause(p)
	}
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

// withProbes returns m with at most n of its probes.
func (m *Message) withProbes(n int) *Message {
	if len(m.Probes) <= n {
		return m
	}
	c := *m
	c.Probes, c.Omitted = m.Probes[:n], m.Omitted+len(m.Probes)-n
	return &c
}

// renderWithin returns the result of render for m with at most maxProbes probes. It lists fewer probes if the
// result would exceed maxBytes.
func (m *Message) renderWithin(maxProbes, maxBytes int, render func(*Message) ([]byte, error)) ([]byte, error) {
	for n := min(maxProbes, len(m.Probes)); ; n /= 2 {
		body, err := render(m.withProbes(n))
		if err != nil || len(body) <= maxBytes || n == 0 {
			return body, err
		}
	}
}

// omittedLine returns a line with the number of omitted probes; "" if there are none.
func (m *Message) omittedLine() string {
	if m.Omitted == 0 {
		return ""
	}
	return fmt.Sprintf("and %d more: prober get probes", m.Omitted)
}
