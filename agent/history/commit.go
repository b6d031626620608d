package history

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/daeace23/prober/agent/history/record"
	"github.com/daeace23/prober/internal/ownership"
)

// commit writes the pending data, and the samples of a minute if minute is not nil. It reports whether everything
// was written. Data that was not written stays pending, except the minute.
func (w *writer) commit(now time.Time, minute []byte) bool {
	w.flush()
	if w.unused {
		w.pending, w.hours, w.pendingBytes, w.fresh, w.closed = nil, nil, 0, nil, nil
		return true
	}
	if !w.waiting() && minute == nil && len(w.closed) == 0 {
		return true
	}
	if now.Before(w.retryAt) || w.h == nil && !w.open(now) {
		return false
	}
	w.committed = now
	for again := 0; ; {
		done, err := w.write(minute)
		switch {
		case err == nil && done:
			w.retryAt, w.retryAfter = time.Time{}, 0
			w.measure()
			if w.minuteLost = w.minuteLost && minute == nil; !w.minuteLost { // changes may fit where minutes do not
				w.s.recovered()
			}
			return true
		case err == nil:
		case errors.Is(err, berrors.ErrMaxSizeReached) && w.makeRoom():
		case errors.Is(err, errCorrupt) && again == 0 && w.replace(err):
			again++
		default:
			w.failed(err)
			return false
		}
	}
}

// write commits the next part of the pending data. The last part has the minute, and done is true.
func (w *writer) write(minute []byte) (done bool, err error) {
	window, names := w.window, min(len(w.fresh), maxNames)
	if window.Seq == 0 {
		window.Seq = w.lastSeq + 1
	}
	batches, hours := w.fit(names == len(w.fresh))
	done = names == len(w.fresh) && batches == len(w.pending) && hours == len(w.hours)
	err = w.h.update(func(tx *bbolt.Tx) error {
		var p []byte
		for _, win := range append(slices.Clone(w.closed), window) {
			if win == window && w.window.Seq != 0 {
				continue // it is written already
			}
			if err := put(tx, &w.seal, windowsBucket, key(win.Seq), record.AppendWindow(nil, &win)); err != nil {
				return err
			}
		}
		for i := range w.fresh[:names] {
			p = record.AppendSeries(p[:0], &w.fresh[i])
			if err := put(tx, &w.seal, seriesBucket, key(w.fresh[i].ID), p); err != nil {
				return err
			}
		}
		for i, batch := range w.pending[:batches] {
			if err := put(tx, &w.seal, eventsBucket, key(window.Seq, w.lastEvents+uint32(i)+1), batch); err != nil {
				return err
			}
		}
		for i, batch := range w.hours[:hours] {
			if err := put(tx, &w.seal, hoursBucket, key(window.Seq, w.lastHours+uint32(i)+1), batch); err != nil {
				return err
			}
		}
		if !done || minute == nil {
			return nil
		}
		return put(tx, &w.seal, minutesBucket, key(window.Seq, w.lastMinute+1), minute)
	})
	if err != nil {
		return false, err
	}
	w.window = window
	w.lastSeq = window.Seq
	w.lastEvents += uint32(batches)
	if done && minute != nil {
		w.lastMinute++
	}
	w.lastHours += uint32(hours)
	w.closed, w.fresh = nil, slices.Clone(w.fresh[names:])
	for _, batch := range slices.Concat(w.pending[:batches], w.hours[:hours]) {
		w.pendingBytes -= len(batch)
	}
	w.pending, w.hours = slices.Clone(w.pending[batches:]), slices.Clone(w.hours[hours:])
	w.s.keep(window)
	return done, nil
}

// fit returns how many batches of events and of hours fit in a commit. They need all names.
func (w *writer) fit(named bool) (events, hours int) {
	size := 0
	for events < len(w.pending) && named && size < maxCommit {
		size += len(w.pending[events])
		events++
	}
	for hours < len(w.hours) && named && events == len(w.pending) && size < maxCommit {
		size += len(w.hours[hours])
		hours++
	}
	return events, hours
}

// carryOut runs a job of the fold.
func (w *writer) carryOut(j *job) error {
	if w.h != j.in || w.h == nil {
		return errClosed // the database was reopened or replaced
	}
	err := w.h.update(func(tx *bbolt.Tx) error { return j.do(tx, &w.seal) })
	switch {
	case err == nil:
		w.measure()
	case errors.Is(err, errCorrupt):
		w.replace(err)
	case errors.Is(err, berrors.ErrMaxSizeReached) && w.makeRoom():
		return errClosed // the fold retries in the reopened database
	default:
		w.reopen()
	}
	return err
}

// failed records an error, and delays the next attempt.
func (w *writer) failed(err error) {
	w.retryAfter = min(max(2*w.retryAfter, firstRetry), lastRetry)
	w.retryAt = time.Now().Add(w.retryAfter)
	w.s.failed(err)
	w.reopen()
}

// measure records the size of the database.
func (w *writer) measure() {
	if used, size := w.h.used(); size > 0 {
		w.s.sized(used, size)
	}
}

// prune drops the oldest windows beyond the retention and the budget. The newest window stays.
func (w *writer) prune(now time.Time) {
	oldest := now.Add(-w.s.cfg.Retention).UnixMilli()
	for w.h != nil {
		windows, _ := w.s.list(0, 1<<62)
		over := w.s.Bytes() > w.s.cfg.Budget
		if len(windows) < 2 || !over && (windows[0].Last == 0 || windows[0].Last >= oldest) {
			return
		}
		if over && windows[0].Last >= oldest {
			w.s.warnLimited(windows[0].Last)
		}
		if !w.drop() {
			return
		}
		w.step(time.Now())
	}
}

// makeRoom drops the oldest window, and reports whether there was one to drop.
func (w *writer) makeRoom() bool {
	windows, _ := w.s.list(0, 1<<62)
	if len(windows) < 2 {
		return false
	}
	w.s.warnLimited(windows[0].Last)
	return w.reopen() && w.drop()
}

// drop drops the oldest window, in commits of a bounded size.
func (w *writer) drop() bool {
	old, ok := w.s.dropOldest()
	if !ok {
		return false
	}
	return w.sweep(old.Seq + 1)
}

// sweep deletes the records of the windows before seq.
func (w *writer) sweep(seq uint32) bool {
	for more := true; more; {
		err := w.h.update(func(tx *bbolt.Tx) error {
			most := deletesPerCommit
			for _, bucket := range [][]byte{windowsBucket, eventsBucket, minutesBucket, pointsBucket, hoursBucket} {
				n, err := deleteBelow(tx, bucket, seq, most)
				if err != nil {
					return err
				}
				most -= n
			}
			more = most == 0
			return nil
		})
		if errors.Is(err, errCorrupt) {
			return w.replace(err)
		}
		if err != nil {
			w.failed(err)
			return false
		}
		w.measure()
	}
	return true
}

// open opens the database. A corrupt one is renamed, and a new one created.
func (w *writer) open(now time.Time) bool {
	path := filepath.Join(w.s.dir, dbName)
	err := mkdir(w.s.dir)
	if err == nil {
		err = verify(path)
	}
	if err == nil {
		err = w.load(path, now)
	}
	if errors.Is(err, errCorrupt) {
		if err = w.aside(path, err); err == nil {
			err = w.load(path, now)
		}
	}
	if err != nil && !w.unused {
		w.failed(err)
		return false
	}
	return !w.unused
}

// aside renames a corrupt database, and reports it.
func (w *writer) aside(path string, why error) error {
	name, err := setAside(path)
	if err != nil {
		return fmt.Errorf("%s %w, and cannot be moved aside: %w", dbName, why, err)
	}
	w.s.damaged(name, why)
	return nil
}

// replace renames the corrupt database, and creates a new one from the data in memory.
func (w *writer) replace(why error) bool {
	w.s.use(nil)
	path := filepath.Join(w.s.dir, dbName)
	w.h.close()
	w.h = nil
	err := w.aside(path, why)
	if err == nil {
		err = w.load(path, time.Now())
	}
	if err != nil {
		w.failed(err)
	}
	return err == nil
}

// reopen opens the database again after an error, without [writer.load]. Readers get errClosed meanwhile.
func (w *writer) reopen() bool {
	if w.h == nil {
		return false
	}
	path := w.h.path
	w.s.use(nil)
	w.h.close()
	h, err := openDB(path, w.s.maxSize(), w.s.cfg.noSync)
	if err != nil {
		w.h = nil // the next commit opens it
		return false
	}
	h.watch = w.s.watch
	w.h = h
	w.s.use(h)
	return true
}

// mkdir creates the folder of the history. Its parent, the state directory, must exist: if it was moved
// away, it is not created again.
func mkdir(dir string) error {
	return ownership.OwnDir(dir)
}
