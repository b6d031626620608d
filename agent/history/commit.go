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

// commit writes what was added, and the samples of a minute if it is not nil. It reports whether everything
// was written; what was not is kept, but for the minute.
func (w *writer) commit(now time.Time, minute []byte) bool {
	w.flush()
	if w.unused {
		w.pending, w.pendingBytes, w.fresh, w.closed = nil, 0, nil, nil
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
			if w.minuteLost = w.minuteLost && minute == nil; !w.minuteLost { // changes may find room where minutes do not
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

// write commits the next part of what is pending. The minute is in the last one, for which done is true.
func (w *writer) write(minute []byte) (done bool, err error) {
	window, names := w.window, min(len(w.fresh), maxNames)
	if window.Seq == 0 {
		window.Seq = w.lastSeq + 1
	}
	batches, size := 0, 0
	for batches < len(w.pending) && names == len(w.fresh) && size < maxCommit {
		size += len(w.pending[batches])
		batches++
	}
	done = names == len(w.fresh) && batches == len(w.pending)
	err = w.h.update(func(tx *bbolt.Tx) error {
		var p []byte
		for _, of := range append(slices.Clone(w.closed), window) {
			if of == window && w.window.Seq != 0 {
				continue // it is there
			}
			if err := put(tx, &w.seal, windowsBucket, key(of.Seq), record.AppendWindow(nil, &of)); err != nil {
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
	w.closed, w.fresh = nil, slices.Clone(w.fresh[names:])
	for _, batch := range w.pending[:batches] {
		w.pendingBytes -= len(batch)
	}
	w.pending = slices.Clone(w.pending[batches:])
	w.s.keep(window)
	return done, nil
}

// carryOut writes what a fold has made.
func (w *writer) carryOut(j *job) error {
	if w.h != j.in || w.h == nil {
		return errClosed // the database is another one
	}
	err := w.h.update(func(tx *bbolt.Tx) error { return j.do(tx, &w.seal) })
	switch {
	case err == nil:
		w.measure()
	case errors.Is(err, errCorrupt):
		w.replace(err)
	case errors.Is(err, berrors.ErrMaxSizeReached) && w.makeRoom():
		return errClosed // it is tried again, in the database that was opened
	default:
		w.reopen()
	}
	return err
}

// failed reports an error, and lets some time pass until the next attempt.
func (w *writer) failed(err error) {
	w.retryAfter = min(max(2*w.retryAfter, firstRetry), lastRetry)
	w.retryAt = time.Now().Add(w.retryAfter)
	w.s.failed(err)
	w.reopen()
}

// measure notes how large the database is.
func (w *writer) measure() {
	if used, size := w.h.used(); size > 0 {
		w.s.sized(used, size)
	}
}

// prune drops the oldest windows, beyond retention and budget. The newest one stays.
func (w *writer) prune(now time.Time) {
	oldest := now.Add(-w.s.cfg.Retention).UnixMilli()
	for w.h != nil {
		windows, _ := w.s.list(0, 1<<62)
		over := w.s.Bytes() > w.s.cfg.Budget
		if len(windows) < 2 || !over && (windows[0].Last == 0 || windows[0].Last >= oldest) {
			return
		}
		if over && windows[0].Last >= oldest {
			w.s.tellLimited(windows[0].Last)
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
	w.s.tellLimited(windows[0].Last)
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

// sweep deletes what is of windows before one.
func (w *writer) sweep(seq uint32) bool {
	for more := true; more; {
		err := w.h.update(func(tx *bbolt.Tx) error {
			most := deletesPerCommit
			for _, bucket := range [][]byte{windowsBucket, eventsBucket, minutesBucket, pointsBucket} {
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

// open opens the database. One that is corrupt is moved aside, and another one made.
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

// aside moves the database aside, and says so.
func (w *writer) aside(path string, why error) error {
	name, err := setAside(path)
	if err != nil {
		return fmt.Errorf("%s %w, and cannot be moved aside: %w", dbName, why, err)
	}
	w.s.damaged(name, why)
	return nil
}

// replace moves the database aside that is corrupt, and makes another one of what is in memory.
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

// reopen opens the database again after an error, without what [writer.load] does. A reader gets an error
// meanwhile.
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

// mkdir makes the folder of the history. That of the agent's state was there: it is not made again when it
// was moved away.
func mkdir(dir string) error {
	return ownership.OwnDir(dir)
}
