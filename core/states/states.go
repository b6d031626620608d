// Package states decides which of four states every probe is in, and why, and notifies readers of each
// change. Status pages, metrics, notifications, the history and pod conditions use these states.
//
// The state follows the decided result, with two additions. It is warning if the attempt that confirmed a
// success warned. It is unknown while a probe has decided nothing, or cannot be carried out any more.
//
// Read [State] first. rule.go has the state machine, cause.go the causes, and probe.go the notification of
// readers.
package states

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/core/worker"
)

// State is the state of a probe as shown to users. The zero value is Unknown.
type State uint8

// All states.
const (
	Unknown State = iota // nothing was decided yet, or three or more ticks in a row had no verdict
	Success
	Warning
	Failure
)

var words = [...]string{Unknown: "unknown", Success: "success", Warning: "warning", Failure: "failure"}

// All returns all states.
func All() []State { return []State{Success, Warning, Failure, Unknown} }

// String returns the API's word for s.
func (s State) String() string {
	if int(s) < len(words) {
		return words[s]
	}
	return words[Unknown]
}

// MarshalText implements [encoding.TextMarshaler] with [State.String].
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. A word that it does not know, as of a newer version, is
// Unknown.
func (s *State) UnmarshalText(text []byte) error {
	*s = State(max(0, slices.Index(words[:], string(text))))
	return nil
}

// Status is the state of a probe at one time. It is the zero value before the first [Change] of a probe
// without an initial state.
type Status struct {
	State State
	Since time.Time // start of State
	// Cause describes the newest attempt that did not succeed; empty in state [Success].
	Cause
	// Forced is [worker.ForcedUp], [worker.ForcedDown] or [worker.Drained] while a user forces the result, and
	// [worker.Open] otherwise.
	Forced worker.Gate
}

// Change is a change of the state of a probe, or of the cause of its state. If only the cause has changed,
// From and To are equal. They are both Unknown if a probe that has decided nothing cannot be carried out.
type Change struct {
	Info worker.Info // with the handler of the tick
	// Target is the result of [Tracker.Target]; "" if that is nil, or if the probe has ended.
	Target string
	From   State     // Unknown for the first change
	To     State     // Unknown if Removed is set
	Since  time.Time // start of From
	Time   time.Time // time of the change: the end of the tick that made it
	Cause            // cause of To
	Was    Cause     // newest cause of From
	// Removed means that the probe or its pod was removed while the agent is running. A change of the
	// probe's spec is no removal.
	Removed bool
	// Forced means that a user has forced a state, or that a forced state has ended. The states of the attempts
	// have not changed.
	Forced bool
}

// Reader is notified of all changes.
type Reader interface {
	// Changed is called by the tick that makes the change, concurrently for different probes and in order
	// for one probe. It must not block, and must not keep c.
	Changed(c *Change)
}

// Tracker observes all probes.
type Tracker struct {
	// Target returns the target of a probe, for changes; nil for changes without a target. It is called by
	// the tick that makes a change. manager.Manager and group.Group have such a method. Target must be set
	// before the first probe is added.
	Target func(*worker.Info) string

	readers []Reader
	stopped atomic.Bool
	live    live
}

var _ worker.Observer = (*Tracker)(nil)

// New returns a tracker that notifies readers.
func New(readers ...Reader) *Tracker { return &Tracker{readers: slices.Clone(readers)} }

// Stop ends the notification of changes. An agent calls it before it stops its probes, because their end is
// no change.
func (t *Tracker) Stop() { t.stopped.Store(true) }

// Observe implements [worker.Observer].
func (t *Tracker) Observe(info worker.Info) worker.ProbeObserver {
	p := &tracked{tracker: t, info: info, rule: First(&info), since: time.Now()}
	if p.rule.State() != Unknown {
		t.live.addNew(p)
	}
	return p
}

func (t *Tracker) notify(c *Change) {
	if t.stopped.Load() {
		return
	}
	defer notify(t.readers, c)
	if t.Target != nil {
		c.Target = t.Target(&c.Info)
	}
}

// notify notifies all readers of c, even if one of them panics or ends the goroutine.
func notify(readers []Reader, c *Change) {
	if len(readers) > 0 {
		defer notify(readers[1:], c)
		readers[0].Changed(c)
	}
}
