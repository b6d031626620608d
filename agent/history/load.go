package history

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/bbolt"

	"github.com/daeace23/prober/agent/history/record"
)

var (
	// errClosed is returned to readers while no database is open.
	errClosed = errors.New("the history is not open now")
	errLater  = errors.New("was written by a later version of prober; nothing is recorded")
)

// contents is the part of a database that the writer needs.
type contents struct {
	windows    []record.Window
	series     []record.Series // without an end
	lastID     uint32
	lastEvents uint32 // number of the last batch of events in the last window
	lastMinute uint32 // number of the last minute in the last window
	lastHours  uint32 // number of the last batch of hours in the last window
	lastEvent  int64  // time of the last event, in milliseconds
	absent     bool   // buckets are absent: it is new, or of a version without hours
}

// load opens the database at path and continues its last window. Later commits write the data in memory.
func (w *writer) load(path string, now time.Time) error {
	h, err := openDB(path, w.s.maxSize(), w.s.cfg.noSync)
	if err != nil {
		return err
	}
	h.watch = w.s.watch
	var c contents
	if err = h.view(c.read); err == nil && c.absent {
		err = h.update(initialize)
		syncDir(filepath.Dir(path))
	}
	if err != nil {
		h.close()
		if w.unused = errors.Is(err, errLater); w.unused {
			w.s.laterVersion(filepath.Base(path), err)
		}
		return err
	}
	w.h = h
	w.adopt(&c, now)
	w.s.opened(h, c.windows)
	if n := len(c.windows); n > 0 && c.windows[n-1].Last == 0 && w.window.Seq == 0 {
		w.end(c.windows[n-1], c.lastEvent)
	}
	w.measure()
	if len(c.windows) > 0 {
		w.sweep(c.windows[0].Seq) // completes a drop that was interrupted
	}
	return nil
}

// initialize creates the buckets that are absent.
func initialize(tx *bbolt.Tx) error {
	for _, name := range allBuckets {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return tx.Bucket(metaBucket).Put(versionKey, []byte(strconv.Itoa(formatVersion)))
}

// read reads the contents of a database.
func (c *contents) read(tx *bbolt.Tx) error {
	meta := tx.Bucket(metaBucket)
	if meta == nil {
		if k, _ := tx.Cursor().First(); k != nil {
			return fmt.Errorf("%w: it is not a history", errCorrupt)
		}
		c.absent = true
		return nil
	}
	c.absent = tx.Bucket(hoursBucket) == nil
	version, err := strconv.Atoi(string(meta.Get(versionKey)))
	switch {
	case err != nil || version < 1:
		return fmt.Errorf("%w: it has no version", errCorrupt)
	case version > formatVersion:
		return errLater
	}
	var open record.Opener
	if c.windows, err = readWindows(tx, &open); err != nil {
		return err
	}
	err = eachSeries(tx, &open, nil, func(s *record.Series) bool {
		c.lastID = max(c.lastID, s.ID)
		if s.Ended == 0 {
			c.series = append(c.series, *s)
		}
		return true
	})
	if err != nil || len(c.windows) == 0 {
		return err
	}
	last := c.windows[len(c.windows)-1]
	if c.lastMinute, _, err = lastNumber(tx, minutesBucket, last.Seq); err != nil {
		return err
	}
	if !c.absent {
		if c.lastHours, _, err = lastNumber(tx, hoursBucket, last.Seq); err != nil {
			return err
		}
	}
	c.lastEvent = last.First
	var batch []byte
	if c.lastEvents, batch, err = lastNumber(tx, eventsBucket, last.Seq); err != nil || batch == nil {
		return err
	}
	payload, err := open.Open(eventsBucket, key(last.Seq, c.lastEvents), batch)
	if err != nil {
		return err
	}
	return record.DecodeEvents(payload, func(e *record.Event) { c.lastEvent = max(c.lastEvent, e.Time) })
}

// lastNumber returns the last number of a window in a bucket, with its value; 0 and nil if there is none.
func lastNumber(tx *bbolt.Tx, bucket []byte, seq uint32) (n uint32, v []byte, err error) {
	if tx.Bucket(bucket) == nil {
		return 0, nil, fmt.Errorf("%w: there is no bucket %s", record.ErrDamaged, bucket)
	}
	k, v := lastInWindow(tx, bucket, seq)
	if k == nil {
		return 0, nil, nil
	}
	n, err = number(k, 1)
	return n, v, err
}

// readWindows reads the windows.
func readWindows(tx *bbolt.Tx, open *record.Opener) (all []record.Window, err error) {
	err = each(tx, windowsBucket, nil, nil, func(k, v []byte) (bool, error) {
		seq, err := number(k, 0)
		if err != nil {
			return false, err
		}
		payload, err := open.Open(windowsBucket, k, v)
		if err != nil {
			return false, err
		}
		w, err := record.DecodeWindow(payload)
		w.Seq = seq
		all = append(all, w)
		return true, err
	})
	return all, err
}

// eachSeries calls f for the series, starting at the key from, until f returns false.
func eachSeries(tx *bbolt.Tx, open *record.Opener, from []byte, f func(*record.Series) bool) error {
	return each(tx, seriesBucket, nil, from, func(k, v []byte) (bool, error) {
		id, err := number(k, 0)
		if err != nil {
			return false, err
		}
		payload, err := open.Open(seriesBucket, k, v)
		if err != nil {
			return false, err
		}
		s, err := record.DecodeSeries(payload)
		if err != nil {
			return false, err
		}
		s.ID = id
		return f(&s), nil
	})
}

// adopt resumes from the contents of a database. Series in memory take the IDs that they have there.
func (w *writer) adopt(c *contents, now time.Time) {
	w.lastID, w.lastSeq, w.lastEvents, w.lastMinute, w.lastHours = c.lastID, 0, 0, 0, 0
	first := w.window.First
	if n := len(c.windows); n > 0 {
		w.lastSeq = c.windows[n-1].Seq
	}
	w.flush()
	w.fresh, w.closed = w.fresh[:0], nil
	ids := make(map[uint32]uint32)
	known := make(map[record.Key]uint32, len(c.series))
	for i := range c.series {
		s := &c.series[i]
		known[s.Key] = s.ID
		if w.series[s.Key] == nil {
			w.series[s.Key] = &series{Series: *s, state: record.Absent}
		}
	}
	for _, s := range w.series {
		old := s.ID
		switch id := known[s.Key]; {
		case id != 0:
			s.ID = id
		case old != 0:
			s.ID = 0
			w.idOf(s)
		}
		ids[old] = s.ID
	}
	w.renumber(ids)
	if n := len(c.windows); n > 0 && c.windows[n-1].Last == 0 && !tooOld(c.windows[n-1].First, now) && !w.opened {
		w.window, w.lastEvents, w.lastMinute, w.lastHours = c.windows[n-1], c.lastEvents, c.lastMinute, c.lastHours
	} else {
		w.begin(min(first, now.UnixMilli()), now)
	}
	w.opened = true
}

// renumber replaces the series IDs in the pending events and hours.
func (w *writer) renumber(ids map[uint32]uint32) {
	var events record.EventWriter
	w.pendingBytes = 0
	for i, batch := range w.hours {
		var next []byte
		_ = record.DecodeHoursOf(batch, func(h *record.HourOf) { // this process encoded it
			h.ID = ids[h.ID]
			next = record.AppendHourOf(next, h)
		})
		w.hours[i] = next
		w.pendingBytes += len(next)
	}
	for i, batch := range w.pending {
		_ = record.DecodeEvents(batch, func(e *record.Event) { // this process encoded it
			if e.Op == record.Change || e.Op == record.Held {
				e.ID = ids[e.ID]
			}
			events.Add(e)
		})
		w.pending[i] = slices.Clone(events.Take())
		w.pendingBytes += len(w.pending[i])
	}
}
