package history

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/daeace23/prober/agent/history/record"
)

const (
	commitAfter    = 50 * time.Millisecond  // a change is committed this long after it came, with later ones,
	commitInterval = 500 * time.Millisecond // and at least this long after the previous commit
	firstRetry     = time.Second            // after an error
	lastRetry      = 30 * time.Second
	maxPending     = 8 << 20     // bytes that wait to be written
	maxTexts       = 500         // of a series in one window: a flapping target must not use up the budget
	maxEvents      = 256 << 10   // bytes of a batch of events
	maxCommit      = 1 << 20     // bytes of one commit
	maxNames       = 2048        // series in one commit
	seriesSize     = 256         // bytes of memory, estimated
	clockBack      = time.Minute // by which the clock may be set back within a window
)

// writer writes the database. One goroutine owns it.
type writer struct {
	s      *Store
	h      *db // nil: the next commit opens it
	series map[record.Key]*series
	events record.EventWriter
	seal   record.Sealer

	window       record.Window   // the current window; its number is 0 until it is committed
	closed       []record.Window // closed windows, not yet written as closed
	fresh        []record.Series // new or changed series, not yet written
	pending      [][]byte        // batches of events, not yet written
	hours        [][]byte        // batches of hours, not yet written
	pendingBytes int             // of pending and hours
	lastID       uint32
	lastSeq      uint32 // number of the last window
	lastEvents   uint32 // number of the last batch of events in the window
	lastMinute   uint32 // number of the last minute in the window
	lastHours    uint32 // number of the last batch of hours in the window
	hour         int32  // the hour, since the epoch, whose durations are collected
	opened       bool   // a database was opened before
	unused       bool   // a later version wrote the database: nothing is recorded
	lost         bool   // a change was not recorded: a snapshot of all states must follow
	minuteLost   bool   // the last minute was not written
	retryAt      time.Time
	retryAfter   time.Duration
	committed    time.Time

	changes []change
	samples []record.SampleOf
	jobs    chan job // of the fold
	closing chan struct{}
}

// job is a write that the fold requests.
type job struct {
	in   *db
	do   func(*bbolt.Tx, *record.Sealer) error
	done chan error
}

func newWriter(s *Store) *writer {
	return &writer{s: s, series: make(map[record.Key]*series), jobs: make(chan job), closing: make(chan struct{}, 1)}
}

// run writes until ctx ends. start must be called first.
func (w *writer) run(ctx context.Context) {
	minute := time.NewTimer(untilMinute(time.Now()))
	defer minute.Stop()
	commit := time.NewTimer(0)
	defer commit.Stop()
	armed := true
	for {
		select {
		case <-w.s.intake.signal:
			if !armed {
				commit.Reset(max(commitAfter, time.Until(w.committed.Add(commitInterval))))
				armed = true
			}
		case <-commit.C:
			armed = false
			w.step(time.Now())
		case <-minute.C:
			w.step(time.Now())
			w.beginHour(time.Now())
			w.minute(time.Now().Add(-30*time.Second), time.Now())
			w.rotate(time.Now())
			minute.Reset(untilMinute(time.Now()))
		case j := <-w.jobs:
			j.done <- w.carryOut(&j)
		case <-w.s.broken:
			if w.h != nil && w.h.condemned() != nil {
				w.replace(w.h.condemned())
				w.step(time.Now())
			}
		case <-ctx.Done():
			w.stop(time.Now())
			return
		}
		if !armed && w.waiting() {
			commit.Reset(max(time.Until(w.retryAt), commitInterval))
			armed = true
		}
	}
}

// untilMinute returns the time until the next minute begins.
func untilMinute(now time.Time) time.Duration {
	return now.Truncate(time.Minute).Add(time.Minute).Sub(now)
}

// start opens the database, and continues its last window or begins a new one.
func (w *writer) start(now time.Time) {
	w.events.Add(&record.Event{Op: record.Start, Time: w.s.made.UnixMilli()})
	w.window = record.Window{First: w.s.made.UnixMilli()}
	w.hour = hourOf(now)
	w.open(now)
	w.s.mu.Lock()
	w.s.running = true
	w.s.mu.Unlock()
	w.prune(now)
}

// stop writes everything that is pending, and closes the database. The agent has stopped its probes.
func (w *writer) stop(now time.Time) {
	w.retryAt = time.Time{}
	w.step(now)
	w.minute(now, now)
	w.endHour()
	w.events.Add(&record.Event{Op: record.Stop, Time: now.UnixMilli()})
	w.commit(now, nil)
	w.s.mu.Lock()
	w.s.running = false
	w.s.mu.Unlock()
	w.s.use(nil)
	if w.h != nil {
		w.h.close()
	}
}

// tooOld reports whether a window must be closed: it is long enough, or the clock was set back.
func tooOld(first int64, now time.Time) bool {
	age := now.Sub(time.UnixMilli(first))
	return age >= window || age < -clockBack
}

// begin begins a window, with the states of all series.
func (w *writer) begin(first int64, now time.Time) {
	w.flush()
	w.window, w.lastEvents, w.lastMinute, w.lastHours = record.Window{First: first}, 0, 0, 0
	w.snapshot(now)
}

// snapshot adds events with the states of all series.
func (w *writer) snapshot(now time.Time) {
	all := make([]*series, 0, len(w.series))
	for _, s := range w.series {
		if s.state != record.Absent {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *series) int { return a.Compare(&b.Key) })
	at := now.UnixMilli()
	w.add(&record.Event{Op: record.Snapshot, Time: at, ID: uint32(len(all))})
	for _, s := range all {
		w.add(&record.Event{Op: record.Held, State: s.state, ID: w.idOf(s), Time: at})
		if s.spared {
			w.mark(s, at)
		}
	}
	w.lost = false
}

// add adds an event.
func (w *writer) add(e *record.Event) {
	w.events.Add(e)
	if w.events.Len() >= maxEvents {
		w.flush()
	}
}

// flush moves the collected events to pending.
func (w *writer) flush() {
	if n := w.events.Len(); n > 0 {
		w.pending = append(w.pending, slices.Clone(w.events.Take()))
		w.pendingBytes += n
	}
}

// waiting reports whether events or series are pending.
func (w *writer) waiting() bool {
	return len(w.pending) > 0 || w.events.Len() > 0 || len(w.fresh) > 0 || len(w.hours) > 0
}

// full reports whether pending data exceeds maxPending.
func (w *writer) full() bool {
	return w.pendingBytes+w.events.Len()+len(w.fresh)*seriesSize > maxPending
}

// step applies and writes the queued changes.
func (w *writer) step(now time.Time) {
	var lost bool
	w.changes, lost = w.s.intake.drain(w.changes[:0])
	for i := range w.changes {
		w.apply(&w.changes[i])
	}
	clear(w.changes) // frees their texts
	if lost {
		w.compare(now)
	}
	if w.commit(now, nil) && w.lost {
		w.snapshot(now)
		w.commit(now, nil)
	}
}

// minute adds the aggregates of the ticks since the last call, as the minute of start. They are dropped if
// they cannot be written.
func (w *writer) minute(start, now time.Time) {
	w.samples = w.samples[:0]
	for _, s := range w.series {
		if sample, ok := s.sample(); ok && !w.full() {
			w.samples = append(w.samples, record.SampleOf{ID: w.idOf(s), Sample: sample})
		}
	}
	slices.SortFunc(w.samples, func(a, b record.SampleOf) int { return cmp.Compare(a.ID, b.ID) })
	if !w.full() {
		w.events.Add(&record.Event{Op: record.Alive, Time: now.UnixMilli()})
	}
	w.retryAt = time.Time{} // retry each minute
	minute := record.AppendMinute(nil, int32(start.Unix()/60), w.samples)
	if w.minuteLost = !w.commit(now, minute); w.minuteLost && len(w.samples) > 0 {
		w.s.dropped(1)
	}
}

func hourOf(t time.Time) int32 { return int32(t.Unix() / 3600) }

// beginHour queues the hour that has ended, if another has begun.
func (w *writer) beginHour(now time.Time) {
	if hour := hourOf(now); hour != w.hour {
		w.endHour()
		w.hour = hour
	}
}

// endHour queues the percentiles of the hour for all series. They are dropped if too much is pending.
func (w *writer) endHour() {
	var batch []byte
	queue := func() {
		if len(batch) > 0 {
			w.hours, w.pendingBytes, batch = append(w.hours, batch), w.pendingBytes+len(batch), nil
		}
	}
	dropped := false
	for _, s := range w.series {
		tracks := s.endHour()
		switch {
		case len(tracks) == 0:
			continue
		case w.full():
			dropped = true
			continue
		}
		batch = record.AppendHourOf(batch, &record.HourOf{ID: w.idOf(s), Hour: record.Hour{Hour: w.hour, Tracks: tracks}})
		if len(batch) >= maxEvents {
			queue()
		}
	}
	queue()
	if dropped {
		w.s.dropped(1)
	}
}

// rotate begins a new window when the current one is long enough, and drops old windows.
func (w *writer) rotate(now time.Time) {
	if tooOld(w.window.First, now) && !w.waiting() && w.window.Seq != 0 {
		w.end(w.window, now.UnixMilli())
		w.forget(now)
		w.begin(now.UnixMilli(), now)
		w.commit(now, nil)
		select {
		case w.closing <- struct{}{}:
		default: // a signal is pending, and the fold scans all windows
		}
	}
	w.prune(now)
}

// end closes a window at the time last.
func (w *writer) end(win record.Window, last int64) {
	win.Last = max(last, win.First)
	w.closed = append(w.closed, win)
	w.s.keep(win)
}
