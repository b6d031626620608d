package history

import (
	"slices"
	"time"

	"github.com/daeace23/prober/agent/history/record"
)

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
