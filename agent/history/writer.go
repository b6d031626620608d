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

// start continues the last journal, or begins one.
func (w *writer) start(now time.Time) {
	err := w.s.open()
	if err == nil && w.resume(now) {
		w.events.Add(&record.Event{Op: record.Start, Time: w.s.made.UnixMilli()})
	} else {
		w.begin(w.s.made, record.Start)
	}
	if err != nil {
		w.failed(err)
	}
	w.s.mu.Lock()
	w.s.running = true
	w.s.mu.Unlock()
	w.s.prune(now)
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

// resume continues the last journal of the agent before, if it is whole and recent.
func (w *writer) resume(now time.Time) bool {
	w.s.mu.Lock()
	files := slices.Clone(w.s.files)
	w.s.mu.Unlock()
	if len(files) == 0 {
		return false
	}
	last := files[len(files)-1]
	if last.block || w.tooOld(&last, now) {
		return false
	}
	f, err := w.s.disk.Append(w.s.path(last.name()))
	if err != nil {
		return false
	}
	whole, lastID, ok := wholeJournal(f, last.size)
	if !ok || f.Truncate(whole) != nil {
		_ = f.Close()
		return false
	}
	last.size, last.last = whole, 0
	w.journal, w.file, w.named, w.lastID = last, f, true, lastID
	w.s.put(last)
	return true
}

// wholeJournal returns how much of a journal is whole, and its last ID. ok is false if there is damage
// that is not a torn end.
func wholeJournal(f file, size int64) (whole int64, lastID uint32, ok bool) {
	scan := record.NewScanner(f, int64(len(record.Magic)), size)
	for raw, ok := scan.Next(); ok; raw, ok = scan.Next() {
		if raw.Type != record.Names {
			continue
		}
		payload, err := scan.Payload(raw)
		if err == nil {
			err = record.DecodeNames(payload, func(s record.Series) { lastID = max(lastID, s.ID) })
		}
		if err != nil {
			return 0, 0, false
		}
	}
	return scan.Whole, lastID, scan.Err() == nil && (scan.Damaged == 0 || scan.Torn())
}

// tooOld reports whether a journal is to be followed by another.
func (w *writer) tooOld(f *fileInfo, now time.Time) bool {
	age := now.Sub(time.UnixMilli(f.first))
	return age >= window || age < -clockBack || f.size > w.s.cfg.Budget/8
}

// begin begins a journal. op says whether the agent has started, or continues.
func (w *writer) begin(now time.Time, op record.Op) {
	w.journal, w.file, w.named, w.lastID = fileInfo{first: now.UnixMilli()}, nil, false, 0
	w.fresh = w.fresh[:0]
	w.payload = record.AppendHead(w.payload[:0], w.journal.first, 0)
	w.pending = w.encode.Append(append(w.pending[:0], record.Magic...), record.Head, w.payload)
	if op == record.Start {
		w.events.Add(&record.Event{Op: op, Time: now.UnixMilli()})
	}
	for _, s := range w.series {
		s.ID, s.texts = 0, 0
	}
	w.snapshot(now)
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

// turn begins a new journal when the old one is long enough, and drops old files.
func (w *writer) turn(now time.Time) {
	if w.tooOld(&w.journal, now) && len(w.pending) == 0 && w.file != nil {
		done := w.journal
		done.last = now.UnixMilli()
		_ = w.file.Close() // it was synced
		w.s.put(done)
		w.begin(now, record.Alive)
		w.commit(now)
		select {
		case w.finished <- done:
		default: // the compaction looks at all files when it has done the one before
		}
	}
	w.s.prune(now)
}

// commit gives what was added to the system, and has it synced. Changes that come meanwhile do not wait
// for the disk: the system has them even if this process is killed.
func (w *writer) commit(now time.Time) {
	w.flush()
	if now.Before(w.retryAt) {
		return
	}
	if w.written < len(w.pending) {
		if err := w.write(); err != nil {
			w.failed(err)
			return
		}
		w.journal.size += int64(len(w.pending) - w.written)
		w.written = len(w.pending)
		w.s.put(w.journal)
	}
	if w.syncing > 0 || w.written == 0 {
		return
	}
	w.syncing = w.written
	file, named := w.file, w.named
	go func() { // sync or stop waits for it
		err := file.Sync()
		if err == nil && !named {
			err = w.s.disk.SyncDir(w.s.dir)
		}
		w.synced <- err
	}()
}

// sync takes the result of a sync. After an error the system may have dropped what it had.
func (w *writer) sync(err error) {
	n := w.syncing
	w.syncing = 0
	if err != nil {
		w.journal.size -= int64(w.written)
		w.written = 0
		w.s.put(w.journal)
		w.failed(err)
		return
	}
	w.named = true
	w.pending = append(w.pending[:0], w.pending[n:]...)
	w.written -= n
	if len(w.pending) == 0 && cap(w.pending) > 1<<20 {
		w.pending = nil
	}
	w.s.recovered()
	if w.lost && !w.full() {
		w.snapshot(time.Now())
	}
	w.commit(time.Now())
}

// failed reports an error, and lets some time pass until the next attempt.
func (w *writer) failed(err error) {
	w.retryAt = time.Now().Add(retryAfter)
	w.s.failed(err)
}

// write writes what is pending, and not written.
func (w *writer) write() error {
	if !w.s.isOpen() {
		if err := w.s.open(); err != nil {
			return err
		}
	}
	if w.file == nil {
		if w.journal.seq == 0 {
			w.journal.seq = w.s.nextSeq()
		}
		if err := w.s.disk.MkdirAll(w.s.dir); err != nil {
			return err
		}
		f, err := w.s.disk.Create(w.s.path(w.journal.name()))
		if err != nil {
			w.journal.seq = 0
			return err
		}
		w.file = f
	}
	_, err := w.file.WriteAt(w.pending[w.written:], w.journal.size)
	return err
}

func (s *Store) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// nextSeq returns the number of a new file.
func (s *Store) nextSeq() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	return s.next - 1
}
