package history

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/history/record"
)

// MaxPoints is the limit of points in a probe's history.
const MaxPoints = 1500

// steps are the lengths of a point, in minutes.
var steps = []int{1, 2, 5, 10, 15, 30, 60, 120, 240, 360, 720, 1440}

// stepOf returns the shortest step, in minutes, for which minutes fit in [MaxPoints].
func stepOf(minutes int) int {
	for _, step := range steps {
		if minutes <= step*(MaxPoints-1) {
			return step
		}
	}
	return (minutes/(MaxPoints-1)/1440 + 1) * 1440
}

// Probe returns the history of a series. ok is false if there was none.
func (s *Store) Probe(ctx context.Context, key Key, since, until time.Time) (h api.ProbeHistory, ok bool, err error) {
	if oldest := s.Oldest(); since.Before(oldest) {
		since = oldest
	}
	h = api.ProbeHistory{Since: since.UTC(), Until: until.UTC(), Points: []api.HistoryPoint{}, Transitions: []api.Transition{}}
	l := timeline{
		s: s, since: since.UnixMilli(), until: until.UnixMilli(), passed: func(*track, int64, int64) {},
		selects: func(k *Key) bool { return *k == key },
		changed: func(t *track, at int64, next record.State, reason, text string) {
			if len(h.Transitions) == 2*MaxIncidents {
				h.Transitions = slices.Delete(h.Transitions, 0, MaxIncidents)
			}
			h.Transitions = append(h.Transitions, api.Transition{
				Time: time.UnixMilli(at).UTC(), From: t.state.String(), To: next.String(), Reason: reason, Text: text,
			})
		},
	}
	if _, err := l.read(ctx); err != nil {
		return h, false, err
	}
	h.Transitions = h.Transitions[max(len(h.Transitions)-MaxIncidents, 0):]
	slices.Reverse(h.Transitions)
	if l.tracks[key] == nil && !s.intake.has(&key) {
		return h, false, nil
	}
	step := stepOf(int(until.Sub(since)/time.Minute) + 1)
	h.StepSeconds = step * 60
	p := pointCollector{from: int32(since.Unix() / 60), to: int32(until.Unix() / 60), step: int32(step), sums: make(map[int32]*sum)}
	windows, _ := s.list(l.since, l.until)
	for _, w := range windows {
		if ctx.Err() != nil {
			return h, false, context.Cause(ctx)
		}
		if err := p.window(s, w.Seq, slices.Collect(maps.Keys(l.ids))); err != nil {
			return h, false, err
		}
	}
	h.Points = p.list()
	return h, true, nil
}

// pointCollector collects the points of a series.
type pointCollector struct {
	from, to, step int32 // minutes
	sums           map[int32]*sum
	open           record.Opener
	samples        []record.SampleOf
}

// sum is a point that is being added up.
type sum struct {
	counts  [4]int
	seconds float64
	longest record.Bin
}

func (p *pointCollector) add(pt record.Point) {
	if pt.Minute < p.from || pt.Minute > p.to {
		return
	}
	at := pt.Minute - pt.Minute%p.step
	s := p.sums[at]
	if s == nil {
		s = &sum{}
		p.sums[at] = s
	}
	n := 0
	for i, c := range pt.Counts {
		s.counts[i] += int(c)
		n += int(c)
	}
	s.seconds += pt.Mean.Seconds() * float64(n)
	s.longest = max(s.longest, pt.Max)
}

// window adds the points of a window: by series if it is folded, else by minute.
func (p *pointCollector) window(s *Store, seq uint32, ids []uint32) error {
	values, err := s.windowValues(&p.open, seq, ids, minutesBucket)
	for n, v := range values.all {
		switch {
		case err != nil:
		case values.folded:
			err = p.points(seq, n, v)
		default:
			p.samples, err = decodeMinute(&p.open, seq, n, v, p.samples[:0], func(minute int32, samples []record.SampleOf) {
				for i := range samples {
					if slices.Contains(ids, samples[i].ID) {
						p.add(record.Point{Minute: minute, Sample: samples[i].Sample})
					}
				}
			})
		}
	}
	return s.checked(values.in, err)
}

// windowValues are copies of values of a window: of the bucket points by ID if it is folded, else of another by number.
type windowValues struct {
	in     *db
	folded bool
	all    map[uint32][]byte
}

// windowValues reads the values of a window. unfolded is the bucket to read if it is not folded. There are no values if
// the window was dropped.
func (s *Store) windowValues(open *record.Opener, seq uint32, ids []uint32, unfolded []byte) (values windowValues, err error) {
	h := s.handle()
	if h == nil {
		return values, errClosed
	}
	values.in, values.all = h, make(map[uint32][]byte)
	err = s.viewIn(h, func(tx *bbolt.Tx) error {
		v := tx.Bucket(windowsBucket).Get(key(seq))
		if v == nil {
			return nil // it was dropped
		}
		payload, err := open.Open(windowsBucket, key(seq), v)
		if err != nil {
			return err
		}
		w, err := record.DecodeWindow(payload)
		if err != nil {
			return err
		}
		if values.folded = w.Folded; w.Folded {
			for _, id := range ids {
				if v := tx.Bucket(pointsBucket).Get(key(seq, id)); v != nil {
					values.all[id] = bytes.Clone(v)
				}
			}
			return nil
		}
		return each(tx, unfolded, key(seq), key(seq), func(k, v []byte) (bool, error) {
			n, err := number(k, 1)
			values.all[n] = bytes.Clone(v)
			return true, err
		})
	})
	return values, err
}

// points adds the points of a series in a window.
func (p *pointCollector) points(seq, id uint32, v []byte) error {
	payload, err := p.open.Open(pointsBucket, key(seq, id), v)
	if err != nil {
		return err
	}
	points, _, err := record.DecodePoints(payload)
	for _, pt := range points {
		p.add(pt)
	}
	return err
}

// list returns the points, oldest first.
func (p *pointCollector) list() []api.HistoryPoint {
	all := make([]api.HistoryPoint, 0, len(p.sums))
	for at, s := range p.sums {
		point := api.HistoryPoint{
			Time: time.Unix(int64(at)*60, 0).UTC(), MaxSeconds: s.longest.Seconds(),
			Success: s.counts[record.Success], Warning: s.counts[record.Warning], Failure: s.counts[record.Failure], Unknown: s.counts[record.Unknown],
		}
		if n := point.Success + point.Warning + point.Failure + point.Unknown; n > 0 {
			point.MeanSeconds = s.seconds / float64(n)
		}
		all = append(all, point)
	}
	slices.SortFunc(all, func(a, b api.HistoryPoint) int { return a.Time.Compare(b.Time) })
	return all
}
