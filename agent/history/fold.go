package history

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/daeace23/prober/agent/history/record"
)

const (
	seriesPerPass  = 2048     // of a fold, which holds all points of a pass in memory
	pointsPerJob   = 256      // series per commit of points
	batchesPerJob  = 500      // batches of events merged into one
	bytesPerBatch  = 64 << 10 // beyond which no further batch is merged
	minutesPerRead = 30       // per read transaction
)

// fold compacts closed windows, and indexes their samples by series.
type fold struct {
	s    *Store
	h    *db
	jobs chan<- job
	open record.Opener
}

// foldAll folds until ctx ends: first the windows that earlier runs left, then each window when it closes.
func (s *Store) foldAll(ctx context.Context, w *writer) {
	retry := time.NewTicker(5 * time.Minute)
	defer retry.Stop()
	for {
		f := fold{s: s, h: s.handle(), jobs: w.jobs}
		if f.h != nil {
			err := f.closed(ctx)
			if now := s.handle(); errors.Is(err, errClosed) && now != nil && now != f.h {
				continue // the writer has reopened the database
			}
			if ctx.Err() == nil {
				s.folded(err)
			}
		}
		select {
		case <-w.closing:
		case <-retry.C: // the disk may have been full
		case <-ctx.Done():
			return
		}
	}
}

// closed folds the closed windows that are not folded yet, and deletes the series of dropped windows.
func (f *fold) closed(ctx context.Context) error {
	var windows []record.Window
	err := f.view(func(tx *bbolt.Tx) (err error) { windows, err = readWindows(tx, &f.open); return err })
	for _, w := range windows {
		if err == nil && w.Last != 0 && !w.Folded {
			err = f.window(ctx, w)
		}
	}
	if err == nil && len(windows) > 0 {
		err = f.forget(ctx, windows[0].First)
	}
	return err
}

func (f *fold) view(do func(*bbolt.Tx) error) error { return f.s.viewIn(f.h, do) }

// write runs do in a transaction of the writer.
func (f *fold) write(ctx context.Context, do func(*bbolt.Tx, *record.Sealer) error) error {
	j := job{in: f.h, do: do, done: make(chan error, 1)}
	select {
	case f.jobs <- j:
		return <-j.done // the writer runs each job that it accepts does not stop before
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errDropped is returned for a window that was dropped while it was folded.
var errDropped = errors.New("the window was dropped")

// writeTo is write for a window. It returns errDropped if the window was dropped.
func (f *fold) writeTo(ctx context.Context, w *record.Window, do func(*bbolt.Tx, *record.Sealer) error) error {
	return f.write(ctx, func(tx *bbolt.Tx, seal *record.Sealer) error {
		if tx.Bucket(windowsBucket).Get(key(w.Seq)) == nil {
			return errDropped
		}
		return do(tx, seal)
	})
}

func (f *fold) window(ctx context.Context, w record.Window) error {
	err := f.joinEvents(ctx, &w)
	var ids []uint32
	if err == nil {
		ids, err = f.ids(ctx, &w)
	}
	for pass := range slices.Chunk(ids, seriesPerPass) {
		if err == nil {
			err = f.points(ctx, &w, pass)
		}
	}
	if err == nil {
		w.Folded = true
		err = f.writeTo(ctx, &w, func(tx *bbolt.Tx, seal *record.Sealer) error {
			for _, bucket := range [][]byte{minutesBucket, hoursBucket} {
				_, err := deleteWhile(tx, bucket, key(w.Seq), 1<<30, func(k []byte) bool { return bytes.HasPrefix(k, key(w.Seq)) })
				if err != nil {
					return err
				}
			}
			return put(tx, seal, windowsBucket, key(w.Seq), record.AppendWindow(nil, &w))
		})
	}
	if errors.Is(err, errDropped) {
		return nil
	}
	return err
}

// joinEvents merges small batches of events into larger ones, which take less space.
func (f *fold) joinEvents(ctx context.Context, w *record.Window) error {
	for from := key(w.Seq); ; {
		var keys [][]byte
		var events record.EventWriter
		more := false
		err := f.view(func(tx *bbolt.Tx) error {
			return each(tx, eventsBucket, key(w.Seq), from, func(k, v []byte) (bool, error) {
				if more = len(keys) == batchesPerJob || events.Len() > bytesPerBatch; more {
					return false, nil
				}
				payload, err := f.open.Open(eventsBucket, k, v)
				if err != nil {
					return false, err
				}
				keys = append(keys, bytes.Clone(k))
				return true, record.DecodeEvents(payload, events.Add)
			})
		})
		if err != nil {
			return err
		}
		if len(keys) > 1 {
			err = f.writeTo(ctx, w, func(tx *bbolt.Tx, seal *record.Sealer) error {
				b := tx.Bucket(eventsBucket)
				for _, k := range keys[1:] {
					if err := b.Delete(k); err != nil {
						return err
					}
				}
				return put(tx, seal, eventsBucket, keys[0], events.Take())
			})
		}
		if err != nil || !more {
			return err
		}
		n, err := number(keys[len(keys)-1], 1)
		if err != nil {
			return err
		}
		from = key(w.Seq, n+1)
	}
}

// eachMinute calls do for the minutes of a window. It reads minutesPerRead of them in a transaction.
func (f *fold) eachMinute(ctx context.Context, seq uint32, do func(minute int32, samples []record.SampleOf)) error {
	var samples []record.SampleOf
	for from := uint32(0); ; {
		var values [][]byte
		var at []uint32
		err := f.view(func(tx *bbolt.Tx) error {
			return each(tx, minutesBucket, key(seq), key(seq, from), func(k, v []byte) (bool, error) {
				n, err := number(k, 1)
				at, values = append(at, n), append(values, bytes.Clone(v))
				return len(values) < minutesPerRead, err
			})
		})
		for i, v := range values {
			if err == nil {
				samples, err = decodeMinute(&f.open, seq, at[i], v, samples[:0], do)
			}
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil || len(values) < minutesPerRead {
			return f.s.checked(f.h, err)
		}
		from = at[len(at)-1] + 1
	}
}

// decodeMinute decodes a minute, appends its samples to samples and calls do with them.
func decodeMinute(open *record.Opener, seq, n uint32, v []byte, samples []record.SampleOf, do func(int32, []record.SampleOf)) ([]record.SampleOf, error) {
	payload, err := open.Open(minutesBucket, key(seq, n), v)
	if err != nil {
		return samples, err
	}
	minute, samples, err := record.DecodeMinute(payload, samples)
	if err == nil {
		do(minute, samples)
	}
	return samples, err
}

// eachHour calls do for the hours of a window, for each series.
func (f *fold) eachHour(seq uint32, do func(*record.HourOf)) error {
	for from := uint32(0); ; {
		var batch []byte
		err := f.view(func(tx *bbolt.Tx) error { // one batch in a transaction
			return each(tx, hoursBucket, key(seq), key(seq, from), func(k, v []byte) (bool, error) {
				n, err := number(k, 1)
				from, batch = n+1, append(batch, v...)
				return false, err
			})
		})
		if err != nil || batch == nil {
			return err
		}
		payload, err := f.open.Open(hoursBucket, key(seq, from-1), batch)
		if err == nil {
			err = record.DecodeHoursOf(payload, do)
		}
		if err != nil {
			return f.s.checked(f.h, err)
		}
	}
}

// ids returns the IDs of the series that have samples or hours in a window, sorted.
func (f *fold) ids(ctx context.Context, w *record.Window) ([]uint32, error) {
	seen := make(map[uint32]struct{})
	err := f.eachMinute(ctx, w.Seq, func(_ int32, samples []record.SampleOf) {
		for i := range samples {
			seen[samples[i].ID] = struct{}{}
		}
	})
	if err == nil {
		err = f.eachHour(w.Seq, func(h *record.HourOf) { seen[h.ID] = struct{}{} })
	}
	ids := make([]uint32, 0, len(seen))
	for id := range seen {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, err
}

// points writes the points and the hours of the given series.
func (f *fold) points(ctx context.Context, w *record.Window, ids []uint32) error {
	all := make([][]record.Point, len(ids))
	err := f.eachMinute(ctx, w.Seq, func(minute int32, samples []record.SampleOf) {
		for i := range samples {
			if at, ok := slices.BinarySearch(ids, samples[i].ID); ok {
				all[at] = append(all[at], record.Point{Minute: minute, Sample: samples[i].Sample})
			}
		}
	})
	hours := make([][]record.Hour, len(ids))
	if err == nil {
		err = f.eachHour(w.Seq, func(h *record.HourOf) {
			if at, ok := slices.BinarySearch(ids, h.ID); ok {
				hours[at] = append(hours[at], h.Hour)
			}
		})
	}
	var payload []byte
	for from := 0; from < len(ids) && err == nil; from += pointsPerJob {
		to := min(from+pointsPerJob, len(ids))
		err = f.writeTo(ctx, w, func(tx *bbolt.Tx, seal *record.Sealer) error {
			for i := from; i < to; i++ {
				payload = record.AppendPoints(payload[:0], inOrder(all[i]), hours[i])
				if err := put(tx, seal, pointsBucket, key(w.Seq, ids[i]), payload); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return err
}

// inOrder sorts points by minute, and merges points of the same minute. The minute of a restart has two:
// one of each run of the agent.
func inOrder(points []record.Point) []record.Point {
	slices.SortStableFunc(points, func(a, b record.Point) int { return int(a.Minute) - int(b.Minute) })
	out := points[:0]
	for _, p := range points {
		if len(out) > 0 && out[len(out)-1].Minute == p.Minute {
			out[len(out)-1].Add(&p.Sample)
			continue
		}
		out = append(out, p)
	}
	return out
}

// forget deletes the series that ended before the history begins.
func (f *fold) forget(ctx context.Context, oldest int64) error {
	for from := uint32(0); ; {
		var ended []uint32
		last, n := uint32(0), 0
		err := f.view(func(tx *bbolt.Tx) error {
			return eachSeries(tx, &f.open, key(from), func(s *record.Series) bool {
				if s.Ended != 0 && s.Ended < oldest {
					ended = append(ended, s.ID)
				}
				last = s.ID
				n++
				return n < 10*deletesPerCommit && len(ended) < deletesPerCommit
			})
		})
		if err == nil && len(ended) > 0 {
			err = f.write(ctx, func(tx *bbolt.Tx, _ *record.Sealer) error {
				for _, id := range ended {
					if err := tx.Bucket(seriesBucket).Delete(key(id)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err != nil || n == 0 {
			return err
		}
		from = last + 1
	}
}
