package history

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/daeace23/prober/agent/history/record"
)

// The buckets. Numbers in keys are big-endian, so that bytewise order is numeric order.
var (
	metaBucket    = []byte("meta")    // "version": the version of the format
	windowsBucket = []byte("windows") // window: a [record.Window]
	seriesBucket  = []byte("series")  // ID: a [record.Series]
	eventsBucket  = []byte("events")  // window, number: a batch of events, in order
	minutesBucket = []byte("minutes") // window, number: the samples of all series, until the window is folded
	pointsBucket  = []byte("points")  // window, ID: the points and the hours of a series, once the window is folded
	hoursBucket   = []byte("hours")   // window, number: a batch of hours that ended in the window, until it is folded
)

var (
	allBuckets = [][]byte{metaBucket, windowsBucket, seriesBucket, eventsBucket, minutesBucket, pointsBucket, hoursBucket}
	versionKey = []byte("version")
)

const (
	formatVersion = 1
	// window is the length of a window. A read of one series before the fold reads all minutes of the window,
	// and a fold sorts them. Longer windows take less space.
	window = 4 * time.Hour
	// deletesPerCommit bounds the duration of a commit that drops a window.
	deletesPerCommit = 1000
)

// key encodes numbers as a key.
func key(numbers ...uint32) []byte {
	k := make([]byte, 0, 8)
	for _, n := range numbers {
		k = binary.BigEndian.AppendUint32(k, n)
	}
	return k
}

// number returns the number with index i in a key.
func number(k []byte, i int) (uint32, error) {
	if len(k) < 4*i+4 {
		return 0, fmt.Errorf("%w: the key %x is too short", record.ErrDamaged, k)
	}
	return binary.BigEndian.Uint32(k[4*i:]), nil
}

// each calls f for the keys of a bucket that begin with prefix, starting at from, until f returns false.
// It bounds the number of keys: damaged pages may form a cycle.
func each(tx *bbolt.Tx, bucket, prefix, from []byte, f func(k, v []byte) (bool, error)) error {
	b := tx.Bucket(bucket)
	if b == nil {
		return fmt.Errorf("%w: there is no bucket %s", record.ErrDamaged, bucket)
	}
	most := tx.Size()/16 + 1 // the limit of elements in all pages
	c := b.Cursor()
	var last []byte
	for k, v := c.Seek(from); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
		if most--; most < 0 || last != nil && bytes.Compare(last, k) >= 0 {
			return fmt.Errorf("%w: the keys of %s are not in order", record.ErrDamaged, bucket)
		}
		last = append(last[:0], k...)
		if more, err := f(k, v); !more || err != nil {
			return err
		}
	}
	return nil
}

// lastInWindow returns the last key of a window in a bucket, with a copy of its value.
func lastInWindow(tx *bbolt.Tx, bucket []byte, seq uint32) (k, v []byte) {
	c := tx.Bucket(bucket).Cursor()
	if k, _ = c.Seek(key(seq + 1)); k == nil {
		k, v = c.Last()
	} else {
		k, v = c.Prev()
	}
	if !bytes.HasPrefix(k, key(seq)) {
		return nil, nil
	}
	return bytes.Clone(k), bytes.Clone(v)
}

// put seals payload and puts it into a bucket.
func put(tx *bbolt.Tx, seal *record.Sealer, bucket, k, payload []byte) error {
	b := tx.Bucket(bucket)
	b.FillPercent = 0.98 // keys are mostly inserted in order
	return b.Put(k, seal.Seal(bucket, k, payload))
}

// deleteBelow deletes at most limit keys of windows before seq, and returns how many it deleted.
func deleteBelow(tx *bbolt.Tx, bucket []byte, seq uint32, limit int) (int, error) {
	return deleteWhile(tx, bucket, nil, limit, func(k []byte) bool { return bytes.Compare(k, key(seq)) < 0 })
}

// deleteWhile deletes at most limit keys, starting at from, while match returns true.
func deleteWhile(tx *bbolt.Tx, bucket, from []byte, limit int, match func(k []byte) bool) (int, error) {
	var keys [][]byte
	err := each(tx, bucket, nil, from, func(k, _ []byte) (bool, error) {
		if len(keys) == limit || !match(k) {
			return false, nil
		}
		keys = append(keys, bytes.Clone(k))
		return true, nil
	})
	if err != nil {
		return 0, err
	}
	b := tx.Bucket(bucket)
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return 0, err
		}
	}
	return len(keys), nil
}

// list returns the windows that overlap the time from since to until, oldest first. active reports whether the
// last window is being written. If it is not, the states after its last event are unknown.
func (s *Store) list(since, until int64) (windows []record.Window, active bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.windows {
		if w.First <= until && (w.Last == 0 || w.Last >= since) {
			windows = append(windows, w)
		}
	}
	return windows, s.running && s.trouble.failing == nil
}

// keep adds or replaces a window in the list that readers use.
func (s *Store) keep(w record.Window) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, found := slices.BinarySearchFunc(s.windows, w.Seq, func(o record.Window, seq uint32) int { return int(int64(o.Seq) - int64(seq)) })
	if found {
		s.windows[i] = w
		return
	}
	s.windows = slices.Insert(s.windows, i, w)
}

// dropOldest removes the oldest window from the list that readers use; ok is false if it is the only one.
func (s *Store) dropOldest() (w record.Window, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.windows) < 2 {
		return w, false
	}
	w = s.windows[0]
	s.windows = slices.Delete(s.windows, 0, 1)
	return w, true
}

// Oldest returns when the kept history begins; the zero time if there is none.
func (s *Store) Oldest() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.windows) == 0 {
		return time.Time{}
	}
	first := s.windows[0].First
	for _, w := range s.windows {
		first = min(first, w.First)
	}
	return time.UnixMilli(first)
}
