package history

import (
	"context"
	"slices"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/history/record"
)

// MaxPoints is the most points of a probe's history.
const MaxPoints = 1500

// steps are the minutes of a point.
var steps = []int{1, 2, 5, 10, 15, 30, 60, 120, 240, 360, 720, 1440}

// stepOf returns the minutes of a point for so many minutes.
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
	p := pointer{key: key, from: int32(since.Unix() / 60), to: int32(until.Unix() / 60), step: int32(step), sums: make(map[int32]*sum)}
	files, _ := s.list(l.since, l.until)
	for i := range files {
		if ctx.Err() != nil {
			return h, false, context.Cause(ctx)
		}
		if err := p.readFile(s, &files[i]); err != nil {
			return h, false, err
		}
	}
	h.Points = p.points()
	return h, true, nil
}

// pointer collects the points of a series.
type pointer struct {
	key            Key
	from, to, step int32 // minutes
	sums           map[int32]*sum
}

// sum is a point that is being added up.
type sum struct {
	counts  [4]int
	seconds float64
	longest record.Bin
}

func (p *pointer) add(of record.Point) {
	if of.Minute < p.from || of.Minute > p.to {
		return
	}
	at := of.Minute - of.Minute%p.step
	s := p.sums[at]
	if s == nil {
		s = &sum{}
		p.sums[at] = s
	}
	n := 0
	for i, c := range of.Counts {
		s.counts[i] += int(c)
		n += int(c)
	}
	s.seconds += of.Mean.Seconds() * float64(n)
	s.longest = max(s.longest, of.Max)
}

// readFile adds the points of a file.
func (p *pointer) readFile(s *Store, f *fileInfo) error {
	in, ok, err := s.openFile(f)
	if err != nil || !ok {
		return err
	}
	defer in.Close()
	if f.block {
		if found, ok := p.fromIndex(in, f.size); ok {
			for _, point := range found {
				p.add(point)
			}
			return nil
		}
		s.suspect(f)
	}
	ids := make(map[uint32]bool)
	scan := record.NewScanner(in, int64(len(record.Magic)), f.size)
	scan.Skip = func(t record.Type) bool { return t != record.Names }
	for raw, ok := scan.Next(); ok; raw, ok = scan.Next() {
		if payload, err := scan.Payload(raw); err == nil {
			_ = record.DecodeNames(payload, func(of record.Series) {
				if of.Key == p.key {
					ids[of.ID] = true
				}
			})
		}
	}
	if len(ids) == 0 {
		return scan.Err()
	}
	return eachPoint(in, f.size, func(id uint32, point record.Point) {
		if ids[id] {
			p.add(point)
		}
	})
}

// fromIndex reads the points of the series from a block. ok is false if the block is damaged there.
func (p *pointer) fromIndex(in file, size int64) (found []record.Point, ok bool) {
	scan := record.NewScanner(in, int64(len(record.Magic)), size)
	_, payload, err := scan.ReadAt(size - record.EndSize)
	if err != nil {
		return nil, false
	}
	at, err := record.DecodeEnd(payload)
	if err != nil {
		return nil, false
	}
	if _, payload, err = scan.ReadAt(at); err != nil {
		return nil, false
	}
	where, err := record.DecodeIndex(payload)
	if err != nil {
		return nil, false
	}
	names, exact := slices.BinarySearchFunc(where.Names, &p.key, func(n record.NamesAt, k *Key) int { return n.First.Compare(k) })
	if !exact {
		names--
	}
	if names < 0 {
		return nil, true
	}
	if _, payload, err = scan.ReadAt(where.Names[names].Offset); err != nil {
		return nil, false
	}
	id := uint32(0)
	if record.DecodeNames(payload, func(s record.Series) {
		if s.Key == p.key {
			id = s.ID
		}
	}) != nil {
		return nil, false
	}
	group, exact := slices.BinarySearchFunc(where.Points, id, func(g record.PointsAt, id uint32) int { return int(g.First) - int(id) })
	if !exact {
		group--
	}
	if id == 0 || group < 0 {
		return nil, true
	}
	if _, payload, err = scan.ReadAt(where.Points[group].Offset); err != nil {
		return nil, false
	}
	err = record.DecodePoints(payload, func(of uint32, points []record.Point) {
		if of == id {
			found = slices.Clone(points)
		}
	})
	return found, err == nil
}

// points returns the points, oldest first.
func (p *pointer) points() []api.HistoryPoint {
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
