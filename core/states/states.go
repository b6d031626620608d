// Package states decides which of four states every probe is in, and tells readers each change: what
// notifications and the history of an agent are made of. The state is that of the decided result,
// and says more in two cases: warning, if the attempt that confirmed a success warned; and
// unknown, while a probe has not decided anything or can no longer be carried out.
// Read [State] first; probe.go is the rule.
package states

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/core/worker"
)

// State is the state of a probe for people. The zero value is Unknown.
type State uint8

// All states.
const (
	Unknown State = iota // nothing was decided yet, or three ticks in a row had no verdict
	Success
	Warning
	Failure
)

// String returns the word of the API for s.
func (s State) String() string {
	if words := [...]string{"unknown", "success", "warning", "failure"}; int(s) < len(words) {
		return words[s]
	}
	return "unknown"
}

// MarshalText implements [encoding.TextMarshaler] with the words of [State.String].
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Change is a change of the state of a probe.
type Change struct {
	Info  worker.Info // the handler is that of the tick
	From  State       // Unknown for the first change
	To    State       // Unknown if Removed is set
	Since time.Time   // when From began
	Time  time.Time   // when To began: the end of the tick that decided it
	// Reason is from the closed list of the metrics, [probe.Reason], or "not_running"; "" if the
	// attempt gave none.
	Reason string
	// Text is the output or the error of the attempt, as the handler gave it: a target may have
	// written it. It has at most [MaxText] bytes.
	Text string
	// Removed means that the probe has ended while the agent goes on: it was removed, or its pod. A
	// probe with another spec goes on.
	Removed bool
}

// MaxText is the most bytes of [Change.Text].
const MaxText = 1 << 10

// Reader is told all changes.
type Reader interface {
	// Changed is called by the tick that makes the change, concurrently for different probes and
	// in order for one. It must not block, and must not keep c.
	Changed(c *Change)
}

// Tracker observes all probes.
type Tracker struct {
	readers  []Reader
	stopped  atomic.Bool
	currents currents
}

var _ worker.Observer = (*Tracker)(nil)

// New returns a tracker that tells readers.
func New(readers ...Reader) *Tracker { return &Tracker{readers: slices.Clone(readers)} }

// Stop ends the changes. An agent calls it before it stops its probes: their end is no change.
func (t *Tracker) Stop() { t.stopped.Store(true) }

// Observe implements [worker.Observer].
func (t *Tracker) Observe(info worker.Info) worker.ProbeObserver {
	return &tracked{tracker: t, info: info, since: time.Now()}
}

func (t *Tracker) tell(c *Change) {
	if t.stopped.Load() {
		return
	}
	for _, r := range t.readers {
		r.Changed(c)
	}
}
