package record

import "encoding/binary"

// State is the state of a series. The first four equal the states of package states.
type State uint8

// All states.
const (
	Unknown State = iota
	Success
	Warning
	Failure
	Absent // the probe does not exist, or the agent is not running
)

// String returns the word of the API.
func (s State) String() string {
	if words := [...]string{"unknown", "success", "warning", "failure", "absent"}; int(s) < len(words) {
		return words[s]
	}
	return "unknown"
}

// IsUp reports whether reports count the time in s as uptime.
func (s State) IsUp() bool { return s == Success || s == Warning }

// IsDown reports whether reports count the time in s as downtime. Time that is neither is not known.
func (s State) IsDown() bool { return s == Failure }

// Op is the kind of an event.
type Op uint8

// All operations.
const (
	Change   Op = iota // the series has a new state
	Alive              // the agent runs
	Start              // the agent has started: the previous event is the last time at which the old one is known to have run
	Stop               // the agent stops, and all series end
	Snapshot           // ID events [Held] follow, one for each series that exists
	Held               // the series is in this state, and was before
)

// The reasons of changes that mark the time of a series and keep its state: reports count the time from a [Spared]
// to a [Counted] for no state. The end of a series ends it too. Older versions ignore such a change.
const (
	Spared  = "maintenance"
	Counted = "maintenance ended"
)

// Event is an event of a window. Its texts are set for a [Change], and for a [Held] failure.
type Event struct {
	Op           Op
	State        State
	ID           uint32 // of the series; for a [Snapshot], the number of Held events that follow
	Time         int64  // milliseconds since the epoch
	Reason, Text string
}

// EventWriter encodes events into a payload. Consecutive events should have close times, which take
// less space.
type EventWriter struct {
	out   []byte
	last  int64
	known texts
}

// Len returns the size of the payload in bytes.
func (w *EventWriter) Len() int { return len(w.out) }

// Add adds an event.
func (w *EventWriter) Add(e *Event) {
	if w.known == nil {
		w.known = make(texts)
	}
	w.out = append(w.out, byte(e.Op)|byte(e.State)<<4)
	w.out = binary.AppendVarint(w.out, e.Time-w.last)
	w.last = e.Time
	switch e.Op {
	case Change, Held:
		w.out = binary.AppendUvarint(w.out, uint64(e.ID))
		w.out = w.known.append(w.out, e.Reason)
		w.out = w.known.append(w.out, e.Text)
	case Snapshot:
		w.out = binary.AppendUvarint(w.out, uint64(e.ID))
	}
}

// Take returns the payload, valid until the next call of Add, and begins a new one.
func (w *EventWriter) Take() []byte {
	out := w.out
	w.out, w.last = w.out[:0], 0
	clear(w.known)
	return out
}

// DecodeEvents calls each for the events of a payload. The event is valid only during the call.
func DecodeEvents(payload []byte, each func(*Event)) error {
	d := decoder{in: payload}
	var e Event
	for len(d.in) > 0 {
		b := d.byte()
		e = Event{Op: Op(b & 15), State: State(b >> 4), Time: e.Time + d.varint()}
		switch {
		case e.Op > Held || e.State > Absent:
			d.bad = true
		case e.Op == Change || e.Op == Held:
			e.ID, e.Reason, e.Text = uint32(d.uvarint()), d.text(), d.text()
		case e.Op == Snapshot:
			e.ID = uint32(d.uvarint())
		}
		if d.bad {
			break
		}
		each(&e)
	}
	return d.err("events")
}
