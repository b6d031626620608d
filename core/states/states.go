// Package states decides which of four states every probe is in, and why, and tells readers each
// change: what status pages, metrics, notifications, the history and conditions of pods are made of. The
// state follows the decided result, and says more in two cases: warning, if the attempt that
// confirmed a success warned; and unknown, while a probe has not decided anything or can no longer be
// carried out.
// Read [State] first; rule.go is the rule, cause.go the causes, probe.go when readers are called.
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

var words = [...]string{Unknown: "unknown", Success: "success", Warning: "warning", Failure: "failure"}

// All returns all states.
func All() []State { return []State{Success, Warning, Failure, Unknown} }

// String returns the word of the API for s.
func (s State) String() string {
	if int(s) < len(words) {
		return words[s]
	}
	return words[Unknown]
}

// MarshalText implements [encoding.TextMarshaler] with the words of [State.String].
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Status is the state of a probe at a moment. A probe that has only been [Unknown] so far has the zero
// value.
type Status struct {
	State State
	Since time.Time // when State began
	// Cause describes the newest attempt that was not a success; empty in state [Success].
	Cause
}

// Change is a change of the state of a probe, or of the cause of its state. From and To are equal if only
// the cause has changed. They are both Unknown if a probe that has decided nothing yet cannot be carried
// out.
type Change struct {
	Info worker.Info // the handler is that of the tick
	// Target is what the probe probes, as [Tracker.Target] returns it; "" if that is nil, or the probe has ended.
	Target string
	From   State     // Unknown for the first change
	To     State     // Unknown if Removed is set
	Since  time.Time // when From began
	Time   time.Time // of the change: the end of the tick that made it
	Cause            // of To
	Was    Cause     // the newest of From
	// Removed means that the probe has ended while the agent goes on: it was removed, or its pod. A
	// probe with another spec goes on.
	Removed bool
}

// Reader is told all changes.
type Reader interface {
	// Changed is called by the tick that makes the change, concurrently for different probes and
	// in order for one. It must not block, and must not keep c.
	Changed(c *Change)
}

// Tracker observes all probes.
type Tracker struct {
	// Target returns what a probe probes, for changes; nil for changes without it. It is called by the tick that
	// makes a change: manager.Manager and group.Group have such a method. It is set before the first probe.
	Target func(*worker.Info) string

	readers []Reader
	stopped atomic.Bool
	live    live
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
	defer tell(t.readers, c)
	if t.Target != nil {
		c.Target = t.Target(&c.Info)
	}
}

// tell tells all readers of c, also those after one that panics or ends the goroutine.
func tell(readers []Reader, c *Change) {
	if len(readers) > 0 {
		defer tell(readers[1:], c)
		readers[0].Changed(c)
	}
}
