package history

import (
	"context"
	"time"

	"go.etcd.io/bbolt"

	"github.com/daeace23/prober/agent/history/record"
)

const (
	// lostAfter exceeds the longest time without a write while the agent runs. A longer gap before a window
	// means that records are missing.
	lostAfter     = 3 * time.Minute
	seriesPerRead = 4096 // per read transaction
)

// track is the state of a series during a replay of its events.
type track struct {
	key          record.Key
	handler      string
	state        record.State
	since        int64  // when the state began, or a mark within it
	reason, text string // of the change to the state
	seen         bool   // an event has set the state
	spared       bool   // reports count the time for no state
	removed      bool   // the probe was removed last, and not ended by a stop of the agent
	held         uint64 // number of the last snapshot with this series
	tally        tally
}

// timeline replays the events of windows, oldest first, and reports how long each series was in each state.
type timeline struct {
	s            *Store
	since, until int64
	selects      func(*record.Key) bool
	// passed is called for a time that a series was in its state. It may be called more than once for a state.
	passed func(t *track, from, to int64)
	// changed is called before the state of a series changes; it may be nil.
	changed func(t *track, at int64, next record.State, reason, text string)
	// windowRead is called after a window was read; it may be nil. Its error ends the replay.
	windowRead func() error

	stopping bool // the changes are the end of all series because the agent stops

	tracks    map[record.Key]*track
	ids       map[uint32]*track
	known     int64 // until when the states are known: the agent ran
	snapshots uint64
	snapshot  int64  // time of the last one
	awaited   uint32 // Held events of the current snapshot that are to come
}

// read reads the windows. It returns when the last state ended: the last known time, at most the end of the
// timeline.
func (l *timeline) read(ctx context.Context) (end int64, err error) {
	l.tracks, l.ids = make(map[record.Key]*track), make(map[uint32]*track)
	windows, active := l.s.list(l.since, l.until)
	if len(windows) > 0 {
		if err := l.names(ctx); err != nil {
			return 0, err
		}
	}
	var open record.Opener
	for _, w := range windows {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		// One transaction for a window: a fold may merge its events meanwhile.
		err := l.s.view(func(tx *bbolt.Tx) error {
			return each(tx, eventsBucket, key(w.Seq), key(w.Seq), func(k, v []byte) (bool, error) {
				payload, err := open.Open(eventsBucket, k, v)
				if err != nil {
					return false, err
				}
				return true, record.DecodeEvents(payload, l.apply)
			})
		})
		if err == nil && l.windowRead != nil {
			err = l.windowRead()
		}
		if err != nil {
			return 0, err
		}
	}
	if active && len(windows) > 0 && windows[len(windows)-1].Last == 0 {
		l.known = max(l.known, time.Now().UnixMilli())
	}
	end = min(l.known, l.until)
	for _, t := range l.tracks {
		if t.since < end {
			l.passed(t, t.since, end)
		}
	}
	return end, nil
}

// names reads the series, seriesPerRead in a transaction.
func (l *timeline) names(ctx context.Context) error {
	var open record.Opener
	for from := uint32(0); ; {
		last, n := uint32(0), 0
		err := l.s.view(func(tx *bbolt.Tx) error {
			return eachSeries(tx, &open, key(from), func(s *record.Series) bool {
				l.name(s)
				last = s.ID
				n++
				return n < seriesPerRead
			})
		})
		if err != nil || n < seriesPerRead {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		from = last + 1
	}
}

// name records a series. Several may have the same key, one after the other.
func (l *timeline) name(s *record.Series) {
	t := l.tracks[s.Key]
	if t == nil {
		if !l.selects(&s.Key) {
			return
		}
		t = &track{key: s.Key, state: record.Absent}
		l.tracks[s.Key] = t
	}
	t.handler = s.Handler
	l.ids[s.ID] = t
}

// apply applies an event.
func (l *timeline) apply(e *record.Event) {
	switch e.Op {
	case record.Start:
		l.endAll(l.known)
	case record.Stop:
		l.endAll(e.Time)
	case record.Snapshot:
		if e.Time-l.known > lostAfter.Milliseconds() {
			l.endAll(l.known)
		}
		l.snapshots++
		l.snapshot = e.Time
		if l.awaited = e.ID; l.awaited == 0 {
			l.endOthers()
		}
	case record.Held, record.Change:
		if t := l.ids[e.ID]; t != nil && isMark(e) {
			l.mark(t, e.Time, e.Reason == record.Spared)
		} else if t != nil {
			l.set(t, e)
		}
		if e.Op == record.Held && l.awaited > 0 {
			if l.awaited--; l.awaited == 0 {
				l.endOthers()
			}
		}
	}
	l.known = max(l.known, e.Time)
}

// endOthers ends the series that are missing in the last snapshot: their end was lost.
func (l *timeline) endOthers() {
	for _, t := range l.tracks {
		if t.held != l.snapshots && t.state != record.Absent {
			l.change(t, record.Absent, l.known, "", "")
		}
	}
}

// endAll ends all series when the agent stops.
func (l *timeline) endAll(at int64) {
	l.stopping = true
	defer func() { l.stopping = false }()
	for _, t := range l.tracks {
		if t.state != record.Absent {
			end := at
			if t.state == record.Failure { // a failure with no later event is an incident too
				end = max(at, t.since+1)
			}
			l.change(t, record.Absent, end, "", "")
			t.removed = false
		}
	}
}

// isMark reports whether a change is a mark.
func isMark(e *record.Event) bool {
	return e.Op == record.Change && (e.Reason == record.Spared || e.Reason == record.Counted)
}

// mark sets whether the time of a series is spared from at on.
func (l *timeline) mark(t *track, at int64, spared bool) {
	if at = max(at, t.since); t.spared == spared {
		return
	}
	if t.since < at && t.seen {
		l.passed(t, t.since, at)
	}
	t.spared, t.since = spared, at
}

// set sets the state of a series.
func (l *timeline) set(t *track, e *record.Event) {
	if e.Op == record.Held {
		t.held = l.snapshots
		l.mark(t, e.Time, false) // another mark follows if it is spared
		if !t.seen {             // the begin of this state is unknown
			t.state, t.since, t.reason, t.text = e.State, e.Time, e.Reason, e.Text
		}
	}
	t.seen = true
	l.change(t, e.State, e.Time, e.Reason, e.Text)
	t.removed = e.State == record.Absent
}

func (l *timeline) change(t *track, next record.State, at int64, reason, text string) {
	at = max(at, t.since) // the clock may have been set back
	if next == t.state {
		if reason != "" && t.reason == "" && next == record.Unknown { // still undecided, but the reason is known now
			l.notify(t, at, next, reason, text)
			t.reason, t.text = reason, text
		}
		return
	}
	if t.since < at && t.seen {
		l.passed(t, t.since, at)
	}
	l.notify(t, at, next, reason, text)
	t.spared = t.spared && next != record.Absent
	t.state, t.since, t.reason, t.text = next, at, reason, text
}

// notify calls changed for a change within the timeline.
func (l *timeline) notify(t *track, at int64, next record.State, reason, text string) {
	if l.changed != nil && at >= l.since && at <= l.until {
		l.changed(t, at, next, reason, text)
	}
}
