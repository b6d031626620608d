package history

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/daeace23/prober/agent/history/record"
)

const (
	commitAfter = 200 * time.Millisecond // a change is written this late, with those that come meanwhile
	retryAfter  = 5 * time.Second        // after an error
	maxPending  = 8 << 20                // bytes that wait for the disk
	maxTexts    = 500                    // of a series in one journal: a target that flaps cannot take the budget
	maxEvents   = 1 << 20                // bytes of one record
	maxNames    = 4096                   // of one record
	clockBack   = time.Minute            // more than that begins a new journal
)

// series is a name of probes, with those that exist.
type series struct {
	record.Series // the ID is 0 if the journal does not have it yet
	live          []*observed
	state         record.State
	texts         int
}

// writer writes the newest journal. One goroutine owns it.
type writer struct {
	s      *Store
	series map[record.Key]*series
	events record.EventWriter
	encode record.Writer
	fresh  []record.Series // that the journal does not have yet

	journal fileInfo // size is what the system has, which the end of this process does not take away
	file    file     // nil: it is made at the next commit
	named   bool     // the name of the file is on the disk
	lastID  uint32
	pending []byte     // of the journal, what is not certainly on the disk
	written int        // bytes of pending that the system has
	syncing int        // bytes of pending that are being synced; 0: none
	synced  chan error // the result of that
	lost    bool       // a change is not in the journal: it needs the states of all
	retryAt time.Time

	changes  []change
	samples  []record.SampleOf
	payload  []byte
	finished chan fileInfo // journals to compact
}

func newWriter(s *Store) *writer {
	return &writer{s: s, series: make(map[record.Key]*series), finished: make(chan fileInfo, 1), synced: make(chan error, 1)}
}

// run writes until ctx ends. start was called.
func (w *writer) run(ctx context.Context) {
	defer close(w.finished)
	minute := time.NewTimer(untilMinute(time.Now()))
	defer minute.Stop()
	commit := time.NewTimer(0)
	defer commit.Stop()
	armed := true
	for {
		select {
		case <-w.s.intake.signal:
			if !armed {
				commit.Reset(commitAfter)
				armed = true
			}
		case <-commit.C:
			armed = false
			w.step(time.Now())
		case err := <-w.synced:
			w.sync(err)
			w.turn(time.Now())
		case <-minute.C:
			w.step(time.Now())
			w.minute(time.Now().Add(-30 * time.Second))
			w.turn(time.Now())
			minute.Reset(untilMinute(time.Now()))
		case <-ctx.Done():
			w.stop(time.Now())
			return
		}
		if !armed && w.written < len(w.pending) { // it failed
			commit.Reset(retryAfter)
			armed = true
		}
	}
}

// untilMinute returns how long it is until the next minute begins.
func untilMinute(now time.Time) time.Duration {
	return now.Truncate(time.Minute).Add(time.Minute).Sub(now)
}

// stop writes what there is. The agent has stopped its probes.
func (w *writer) stop(now time.Time) {
	w.retryAt = time.Time{}
	w.step(now)
	w.minute(now)
	w.events.Add(&record.Event{Op: record.Stop, Time: now.UnixMilli()})
	for w.commit(now); w.syncing > 0; w.commit(now) {
		w.sync(<-w.synced)
	}
	w.s.mu.Lock()
	w.s.running = false
	w.s.mu.Unlock()
	if w.file != nil {
		_ = w.file.Close() // it was synced, or cannot be
	}
}

// snapshot adds the states of all series.
func (w *writer) snapshot(now time.Time) {
	all := make([]*series, 0, len(w.series))
	for _, s := range w.series {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *series) int { return a.Compare(&b.Key) })
	at := now.UnixMilli()
	w.add(&record.Event{Op: record.Snapshot, Time: at, ID: uint32(len(all))})
	for _, s := range all {
		w.add(&record.Event{Op: record.Held, State: s.state, ID: w.idOf(s), Time: at})
	}
	w.lost = false
}

// idOf returns the ID of a series in the journal.
func (w *writer) idOf(s *series) uint32 {
	if s.ID == 0 {
		w.lastID++
		s.ID = w.lastID
		w.fresh = append(w.fresh, s.Series)
	}
	return s.ID
}

// add adds an event to the journal.
func (w *writer) add(e *record.Event) {
	w.events.Add(e)
	if w.events.Len() >= maxEvents {
		w.flush()
	}
}

// flush moves names and events to what is to be written.
func (w *writer) flush() {
	for part := range slices.Chunk(w.fresh, maxNames) {
		w.payload = record.AppendNames(w.payload[:0], part)
		w.pending = w.encode.Append(w.pending, record.Names, w.payload)
	}
	w.fresh = w.fresh[:0]
	if w.events.Len() > 0 {
		w.pending = w.encode.Append(w.pending, record.Events, w.events.Take())
	}
}

// full reports whether too much waits for the disk.
func (w *writer) full() bool { return len(w.pending)+w.events.Len() > maxPending }

// step writes the changes that have come.
func (w *writer) step(now time.Time) {
	var lost bool
	w.changes, lost = w.s.intake.drain(w.changes[:0])
	for i := range w.changes {
		w.apply(&w.changes[i])
	}
	clear(w.changes) // it has texts
	if lost {
		w.compare(now)
	}
	w.commit(now)
}

// apply applies a change to its series, and notes the new state of that.
func (w *writer) apply(c *change) {
	o := c.of
	switch {
	case c.begins && o.series == nil:
		w.join(o, c.handler)
	case c.begins: // compare has seen it
	case o.series == nil: // its begin was lost, and compare has not seen it
	case c.ends:
		o.series.live = slices.DeleteFunc(o.series.live, func(other *observed) bool { return other == o })
	default:
		o.decided = c.state
	}
	if o.series == nil {
		return
	}
	w.handledBy(o.series, c.handler)
	w.renew(o.series, c)
}

// handledBy notes the handler of a series; "" changes nothing.
func (w *writer) handledBy(s *series, handler string) {
	if handler != "" && s.Handler != handler {
		s.Handler = handler
		if s.ID != 0 {
			w.fresh = append(w.fresh, s.Series)
		}
	}
}

// join adds a probe to its series.
func (w *writer) join(o *observed, handler string) {
	s := w.series[o.key]
	if s == nil {
		s = &series{Series: record.Series{Key: o.key, Handler: handler}, state: record.Absent}
		w.series[o.key] = s
	}
	o.series = s
	s.live = append(s.live, o)
}

// stateOf returns the state of a series: that of the newest probe that has decided one.
func (s *series) stateOf() record.State {
	if len(s.live) == 0 {
		return record.Absent
	}
	for _, o := range slices.Backward(s.live) {
		if o.decided != record.Unknown {
			return o.decided
		}
	}
	return record.Unknown
}

// renew notes the state of a series after a change.
func (w *writer) renew(s *series, c *change) {
	next := s.stateOf()
	if len(s.live) == 0 && w.series[s.Key] == s {
		delete(w.series, s.Key)
	}
	if next == s.state {
		return
	}
	s.state = next
	if w.full() {
		w.lost = true
		w.s.dropped(1)
		return
	}
	text := c.text
	if text != "" {
		if s.texts++; s.texts > maxTexts {
			text = ""
		}
	}
	w.add(&record.Event{Op: record.Change, State: next, ID: w.idOf(s), Time: c.at, Reason: c.reason, Text: text})
}

// compare finds what has become of probes, after changes were lost.
func (w *writer) compare(now time.Time) {
	exists := make(map[*observed]bool)
	for _, e := range w.s.intake.all() {
		exists[e.observed] = true
		if e.observed.series == nil {
			w.join(e.observed, e.handler)
		}
		e.decided = e.state
		w.handledBy(e.observed.series, e.handler)
		w.renew(e.observed.series, &change{at: e.since})
	}
	for _, s := range w.series {
		s.live = slices.DeleteFunc(s.live, func(o *observed) bool { return !exists[o] })
		w.renew(s, &change{at: now.UnixMilli()})
	}
}

// minute adds the aggregates of the ticks since the last call.
func (w *writer) minute(of time.Time) {
	w.samples = w.samples[:0]
	full := w.full()
	for _, s := range w.series {
		sample, ok := s.sample()
		if ok && !full {
			w.samples = append(w.samples, record.SampleOf{ID: w.idOf(s), Sample: sample})
		}
	}
	if full {
		w.s.dropped(1)
		return
	}
	slices.SortFunc(w.samples, func(a, b record.SampleOf) int { return cmp.Compare(a.ID, b.ID) })
	w.events.Add(&record.Event{Op: record.Alive, Time: time.Now().UnixMilli()})
	w.flush()
	w.payload = record.AppendMinute(w.payload[:0], int32(of.Unix()/60), w.samples)
	w.pending = w.encode.Append(w.pending, record.Minute, w.payload)
	w.commit(time.Now())
}

// sample returns the aggregate of a series; ok is false if it had no ticks.
func (s *series) sample() (sample record.Sample, ok bool) {
	var sum, ticks uint64
	var longest uint32
	for _, o := range s.live {
		counts, of, most := o.take()
		for i, n := range counts {
			n = min(n, ^sample.Counts[i])
			sample.Counts[i] += n
			ticks += uint64(n)
		}
		sum += of
		longest = max(longest, most)
	}
	if ticks == 0 {
		return sample, false
	}
	mean := time.Duration(sum/ticks) * time.Microsecond
	sample.Mean = record.BinOf(mean)
	sample.Max = max(sample.Mean, record.BinOf(time.Duration(longest)*time.Microsecond))
	return sample, true
}
