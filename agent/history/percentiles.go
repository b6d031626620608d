package history

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/history/record"
)

const (
	// MaxDurationPoints is the limit of points of each duration in a probe's percentiles.
	MaxDurationPoints = 200
	maxPhaseNames     = 16 // phases in a response
)

// hourSteps are the lengths of a point, in hours; longer ones are multiples of the last.
var hourSteps = []int32{1, 2, 3, 4, 6, 8, 12, 24}

// hourStepOf returns the shortest step for which hours fit in [MaxDurationPoints], wherever they begin in a step.
func hourStepOf(hours int32) int32 {
	for _, step := range hourSteps {
		if hours <= step*(MaxDurationPoints-1) {
			return step
		}
	}
	return (hours/(MaxDurationPoints-1)/24 + 1) * 24
}

// Durations returns the percentiles of the durations of a series in whole hours. ok is false if there are none.
func (s *Store) Durations(ctx context.Context, key Key, since, until time.Time) (d api.ProbeDurations, ok bool, err error) {
	if oldest := s.Oldest(); since.Before(oldest) {
		since = oldest
	}
	since = since.Truncate(time.Hour)
	d = api.ProbeDurations{Since: since.UTC(), Until: until.UTC(), Phases: []api.PhaseDurations{}}
	c := hourCollector{from: hourOf(since), to: hourOf(until), columns: make(map[string]map[int32]*spread)}
	c.step = hourStepOf(c.to - c.from + 1)
	d.StepSeconds = int(c.step) * 3600
	l := timeline{s: s} // for its names
	l.selects = func(k *Key) bool { return *k == key }
	l.tracks, l.ids = make(map[record.Key]*track), make(map[uint32]*track)
	if s.handle() != nil {
		err = l.names(ctx)
	}
	windows, _ := s.list(since.UnixMilli(), until.Add(time.Hour).UnixMilli()) // an hour is in the window in which it ends
	for _, w := range windows {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err == nil {
			err = c.window(s, w.Seq, slices.Collect(maps.Keys(l.ids)))
		}
	}
	if err != nil {
		return d, false, err
	}
	live := s.intake.addHourTo(&key, &c)
	c.fill(&d)
	return d, live || len(l.ids) > 0, nil
}

// addHourTo adds the present hour of the live probes of a series, and reports whether there is one.
func (in *intake) addHourTo(key *record.Key, c *hourCollector) bool {
	in.mu.Lock()
	var live []*observed
	for _, o := range in.live {
		if o.key == *key {
			live = append(live, o)
		}
	}
	in.mu.Unlock()
	var sum durations
	for _, o := range live {
		o.addHourTo(&sum, false)
	}
	c.add(&record.Hour{Hour: hourOf(time.Now()), Tracks: sum.tracks()})
	return len(live) > 0
}

// hourCollector adds up the hours of a series.
type hourCollector struct {
	from, to, step int32                        // hours
	columns        map[string]map[int32]*spread // by name of a phase, and by hour of the step
	open           record.Opener
}

// window adds the hours in a window.
func (c *hourCollector) window(s *Store, seq uint32, ids []uint32) error {
	values, err := s.windowValues(&c.open, seq, ids, hoursBucket)
	for n, v := range values.all {
		if err == nil && values.folded {
			err = c.points(seq, n, v)
		} else if err == nil {
			err = c.batch(seq, n, v, ids)
		}
	}
	return s.checked(values.in, err)
}

func (c *hourCollector) points(seq, id uint32, v []byte) error {
	payload, err := c.open.Open(pointsBucket, key(seq, id), v)
	if err != nil {
		return err
	}
	_, hours, err := record.DecodePoints(payload)
	for i := range hours {
		c.add(&hours[i])
	}
	return err
}

func (c *hourCollector) batch(seq, n uint32, v []byte, ids []uint32) error {
	payload, err := c.open.Open(hoursBucket, key(seq, n), v)
	if err != nil {
		return err
	}
	return record.DecodeHoursOf(payload, func(h *record.HourOf) {
		if slices.Contains(ids, h.ID) {
			c.add(&h.Hour)
		}
	})
}

func (c *hourCollector) add(h *record.Hour) {
	if h.Hour < c.from || h.Hour > c.to {
		return
	}
	at := h.Hour - h.Hour%c.step
	for i := range h.Tracks {
		t := &h.Tracks[i]
		column := c.columns[t.Name]
		if column == nil {
			if len(c.columns) > maxPhaseNames {
				continue
			}
			column = make(map[int32]*spread)
			c.columns[t.Name] = column
		}
		if column[at] == nil {
			column[at] = new(spread)
		}
		column[at].add(t)
	}
}

// fill sets the durations of whole ticks and of their phases.
func (c *hourCollector) fill(d *api.ProbeDurations) {
	d.DurationPercentiles, d.Points = summary(c.columns[""])
	for name, column := range c.columns {
		if name == "" {
			continue
		}
		p := api.PhaseDurations{Name: name}
		p.DurationPercentiles, p.Points = summary(column)
		d.Phases = append(d.Phases, p)
	}
	slices.SortFunc(d.Phases, orderOfPhases)
}

// summary returns the percentiles of all of a column, and of each of its steps.
func summary(column map[int32]*spread) (api.DurationPercentiles, []api.DurationPoint) {
	var all spread
	points := make([]api.DurationPoint, 0, len(column))
	for _, at := range slices.Sorted(maps.Keys(column)) {
		all.merge(column[at])
		points = append(points, api.DurationPoint{Time: time.Unix(int64(at)*3600, 0).UTC(), DurationPercentiles: column[at].percentiles()})
	}
	return all.percentiles(), points
}

// spread is how many ticks took how long, by bucket. It is estimated from percentiles.
type spread struct {
	ticks   uint64
	buckets [record.Buckets]float64
}

// add adds a track. Its ticks between two percentiles are spread evenly over the buckets between them, so that the
// percentiles of one track, and of equal ones, are exact.
func (s *spread) add(t *record.Track) {
	s.ticks += t.Ticks
	last, before := 0, t.At[0]
	for i, percent := range record.Percents(t.Name) {
		share := float64(t.Ticks) * float64(percent-last) / 100
		s.put(before, t.At[i], share)
		last, before = percent, t.At[i]
	}
	s.put(before, before, float64(t.Ticks)*float64(100-last)/100)
}

// put spreads ticks over the buckets after from, up to to.
func (s *spread) put(from, to record.Bucket, ticks float64) {
	if from == to {
		s.buckets[to] += ticks
	}
	for b := from + 1; b <= to; b++ {
		s.buckets[b] += ticks / float64(to-from)
	}
}

func (s *spread) merge(o *spread) {
	s.ticks += o.ticks
	for i, n := range o.buckets {
		s.buckets[i] += n
	}
}

func (s *spread) percentiles() (p api.DurationPercentiles) {
	p.Ticks = s.ticks
	p.P50Seconds, p.P90Seconds, p.P99Seconds = s.percentile(0.5), s.percentile(0.9), s.percentile(0.99)
	return p
}

// percentile returns the duration that a share of the ticks did not exceed, in seconds; 0 if there are no ticks.
func (s *spread) percentile(share float64) float64 {
	wanted := share * float64(s.ticks) * (1 - 1e-9) // sums of shares are not exact
	sum := 0.0
	for b, n := range s.buckets {
		if sum += n; sum >= wanted && n > 0 {
			return record.Bucket(b).Seconds()
		}
	}
	return 0
}

// phaseOrder is the order in which the phases of an attempt happen.
var phaseOrder = []string{"start", "dns", "connect", "dial", "tls", "settings", "call", "first byte", "headers", "body"}

// orderOfPhases compares phases by when they happen, and others, which come last, by name.
func orderOfPhases(a, b api.PhaseDurations) int {
	at := func(name string) int {
		if i := slices.Index(phaseOrder, name); i >= 0 {
			return i
		}
		return len(phaseOrder)
	}
	return cmp.Or(at(a.Name)-at(b.Name), strings.Compare(a.Name, b.Name))
}
