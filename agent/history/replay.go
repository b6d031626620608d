package history

import (
	"context"
	"time"

	"github.com/daeace23/prober/agent/history/record"
)

// lostAfter is how long the agent writes nothing while it runs, at most. A longer gap between two files
// means that one between them is lost.
const lostAfter = 3 * time.Minute

// track is the state of a series while its events are read.
type track struct {
	key          record.Key
	handler      string
	state        record.State
	since        int64  // of the state
	reason, text string // of the change to it
	seen         bool   // there was a state
	removed      bool   // the last end was that of the probe, not of the agent
	held         uint64 // the last snapshot that has it
	tally        tally
}

// timeline reads the events of files, oldest first, and tells how long each series was in each state.
type timeline struct {
	s            *Store
	since, until int64
	selects      func(*record.Key) bool
	// passed is called for the time that a series was in its state. It may be called more than once
	// for one state.
	passed func(t *track, from, to int64)
	// changed is called before the state of a series changes; it may be nil.
	changed func(t *track, at int64, next record.State, reason, text string)

	tracks    map[record.Key]*track
	known     int64 // when the agent is known to have run
	snapshots uint64
	awaited   uint32 // series of the snapshot that is read
}

// read reads the files. It returns when the last state ended: what is known, up to the end of the
// timeline.
func (l *timeline) read(ctx context.Context) (end int64, err error) {
	l.tracks = make(map[record.Key]*track)
	files, active := l.s.list(l.since, l.until)
	for i := range files {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if err := l.readFile(&files[i]); err != nil {
			return 0, err
		}
	}
	if active && len(files) > 0 && files[len(files)-1].last == 0 {
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

// readFile reads the names and events of a file.
func (l *timeline) readFile(f *fileInfo) error {
	in, ok, err := l.s.openFile(f)
	if err != nil || !ok {
		return err
	}
	defer in.Close()
	ids := make(map[uint32]*track)
	scan := record.NewScanner(in, int64(len(record.Magic)), f.size)
	scan.Skip = func(t record.Type) bool { return t == record.Minute || t == record.Head }
	for raw, ok := scan.Next(); ok; raw, ok = scan.Next() {
		if f.block && raw.Type == record.Points {
			break // there are no events after these
		}
		payload, err := scan.Payload(raw)
		switch {
		case err != nil:
		case raw.Type == record.Names:
			err = record.DecodeNames(payload, func(s record.Series) { l.name(ids, &s) })
		case raw.Type == record.Events:
			err = record.DecodeEvents(payload, func(e *record.Event) { l.apply(ids, e) })
		}
		if err != nil {
			l.s.suspect(f)
		}
	}
	if scan.Damaged > 0 {
		l.s.suspect(f)
	}
	l.awaited = 0 // a part of the snapshot is lost
	return scan.Err()
}

// name notes a series of a file.
func (l *timeline) name(ids map[uint32]*track, s *record.Series) {
	t := l.tracks[s.Key]
	if t == nil {
		if !l.selects(&s.Key) {
			return
		}
		t = &track{key: s.Key, state: record.Absent}
		l.tracks[s.Key] = t
	}
	t.handler = s.Handler
	ids[s.ID] = t
}

// apply applies an event.
func (l *timeline) apply(ids map[uint32]*track, e *record.Event) {
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
		if l.awaited = e.ID; l.awaited == 0 {
			l.endOthers()
		}
	case record.Held, record.Change:
		if t := ids[e.ID]; t != nil {
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

// endOthers ends the series that the last snapshot does not have: their end is lost.
func (l *timeline) endOthers() {
	for _, t := range l.tracks {
		if t.held != l.snapshots && t.state != record.Absent {
			l.change(t, record.Absent, l.known, "", "")
		}
	}
}

// endAll ends all series with the agent.
func (l *timeline) endAll(at int64) {
	for _, t := range l.tracks {
		if t.state != record.Absent {
			l.change(t, record.Absent, at, "", "")
			t.removed = false
		}
	}
}

// set sets the state of a series.
func (l *timeline) set(t *track, e *record.Event) {
	if e.Op == record.Held {
		t.held = l.snapshots
		if !t.seen { // it is not known when this began
			t.state, t.since, t.reason, t.text = e.State, e.Time, e.Reason, e.Text
		}
	}
	t.seen = true
	l.change(t, e.State, e.Time, e.Reason, e.Text)
	t.removed = e.State == record.Absent
}

func (l *timeline) change(t *track, next record.State, at int64, reason, text string) {
	if next == t.state {
		return
	}
	at = max(at, t.since) // the clock may have been set back
	if t.since < at && t.seen {
		l.passed(t, t.since, at)
	}
	if l.changed != nil && at >= l.since && at <= l.until {
		l.changed(t, at, next, reason, text)
	}
	t.state, t.since, t.reason, t.text = next, at, reason, text
}

// suspect reports, once, that a file is damaged. It is written anew later.
func (s *Store) suspect(f *fileInfo) {
	s.mu.Lock()
	known := s.suspects[f.seq]
	if s.suspects == nil {
		s.suspects = make(map[uint64]bool)
	}
	s.suspects[f.seq] = true
	s.mu.Unlock()
	if !known {
		s.damaged(f.name(), "has records that cannot be read")
	}
}
