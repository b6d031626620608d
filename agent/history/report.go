package history

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/history/record"
)

const (
	// MaxIncidents is the limit of incidents, or transitions, listed for a probe.
	MaxIncidents = 1000
	// bridge is how long the state may be unknown within one incident, such as after a restart of the agent.
	bridge = 10 * time.Minute
	// maxDetails is how many bytes of incidents a report holds in memory. A larger report reads the history
	// more than once.
	maxDetails = 32 << 20
)

// Key identifies a series: the successive probes with the same names.
type Key = record.Key

// Query selects the contents of a report.
type Query struct {
	Since, Until time.Time
	Match        func(*Key) bool
	After        *Key // only keys after it; nil for all
	Limit        int  // of items; 0 for all
	Incidents    bool // list incidents, not only their number
	Newest       bool // list only the newest incident of each item
	Parts        int  // equal parts of the time from Since to Until with an uptime each, at most [MaxParts]; 0 for none
}

func (q *Query) mostIncidents() int {
	if q.Newest {
		return 1
	}
	return MaxIncidents
}

// Page describes a page of a report.
type Page struct {
	Since, Until time.Time
	Last         *Key // key of the last item if more items follow, else nil
	Remaining    int
}

// tally accumulates the report of a series.
type tally struct {
	millis    [4]int64 // by state
	spared    int64    // in which the state did not count
	parts     []part   // nil while none is known
	incidents []api.Incident
	count     int
	longest   int64
	current   int64 // duration of the last incident
	lastEnd   int64
	joins     bool // the next failure continues the last incident
	open      bool // it continues beyond the end of the report
}

// reporter builds a report.
type reporter struct {
	timeline
	query   *Query
	parts   int  // parts in memory
	details int  // bytes of incidents in memory
	from    *Key // collect incidents from this key on; nil: from the first
	below   *Key // and only for keys below this one; nil: for all
	most    int  // limit of details
}

// Report calls begin once, and then each for every probe that existed, sorted by key. Its memory does not
// depend on the number of incidents.
func (s *Store) Report(ctx context.Context, q *Query, begin func(*Page) error, each func(*api.ReportItem) error) error {
	r := reporter{query: q, most: maxDetails}
	if s.maxDetails != 0 {
		r.most = s.maxDetails
	}
	since := q.Since
	if oldest := s.Oldest(); since.Before(oldest) {
		since = oldest
	}
	r.timeline = timeline{s: s, since: since.UnixMilli(), until: q.Until.UnixMilli(), selects: r.selects, passed: r.passed}
	end, err := r.read(ctx)
	if err == nil && r.parts > maxPartsHeld {
		err = fmt.Errorf("too many probes for %d parts: select a namespace, or fewer parts", q.Parts)
	}
	if err != nil {
		return err
	}
	page, keys := r.page(since)
	if err := begin(page); err != nil {
		return err
	}
	for {
		n := r.complete(keys)
		for _, key := range keys[:n] {
			if err := each(r.item(r.tracks[key], end)); err != nil {
				return err
			}
		}
		if keys = keys[n:]; len(keys) == 0 {
			return nil
		}
		r.from, r.below, r.details, r.known = &keys[0], nil, 0, 0
		if end, err = r.read(ctx); err != nil {
			return err
		}
		keys = slices.DeleteFunc(keys, func(k Key) bool { return r.tracks[k] == nil }) // dropped meanwhile
	}
}

// page returns the head of the report, and the keys of its items.
func (r *reporter) page(since time.Time) (*Page, []Key) {
	keys := make([]Key, 0, len(r.tracks))
	for key, t := range r.tracks {
		if t.tally.millis != [4]int64{} || t.tally.spared > 0 {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b Key) int { return a.Compare(&b) })
	page := &Page{Since: since, Until: r.query.Until}
	if n := r.query.Limit; n > 0 && n < len(keys) {
		page.Last, page.Remaining = &keys[n-1], len(keys)-n
		keys = keys[:n]
	}
	return page, keys
}

// complete returns how many of keys, from the first, have all their incidents in memory.
func (r *reporter) complete(keys []Key) int {
	if r.below == nil {
		return len(keys)
	}
	n, _ := slices.BinarySearchFunc(keys, r.below, func(k Key, below *Key) int { return k.Compare(below) })
	return n
}

func (r *reporter) selects(k *Key) bool {
	return r.query.Match(k) && (r.query.After == nil || k.Compare(r.query.After) > 0) && (r.from == nil || k.Compare(r.from) >= 0)
}

// passed adds the time of a state from from to to.
func (r *reporter) passed(t *track, from, to int64) {
	y := &t.tally
	if t.spared || t.state != record.Failure { // also before the report begins: such a state ends an incident
		r.pause(t, to)
		switch from, to = max(from, r.since), min(to, r.until); {
		case from >= to || t.state == record.Absent:
		case t.spared:
			y.spared += to - from
		default:
			y.millis[t.state] += to - from
			r.addToParts(t, from, to)
		}
		return
	}
	over := to > r.until
	if from, to = max(from, r.since), min(to, r.until); from >= to {
		return
	}
	y.millis[record.Failure] += to - from
	r.addToParts(t, from, to)
	if !y.joins {
		y.count++
		y.current = 0
		r.addIncident(t, from)
	}
	y.joins, y.lastEnd, y.open = true, to, over
	y.current += to - from
	y.longest = max(y.longest, y.current)
	if n := len(y.incidents); n > 0 {
		i := &y.incidents[n-1]
		i.End, i.DurationSeconds = time.UnixMilli(to).UTC(), seconds(y.current)
	}
}

// pause notes whether time without a failure that counts, which lasts until to, ends the incident.
func (r *reporter) pause(t *track, to int64) {
	if !t.spared && (t.state == record.Success || t.state == record.Warning) || t.removed || to-t.tally.lastEnd > bridge.Milliseconds() {
		t.tally.joins = false
	}
}

// addIncident adds an incident if this pass collects incidents of the key.
func (r *reporter) addIncident(t *track, from int64) {
	if !r.query.Incidents || r.below != nil && t.key.Compare(r.below) >= 0 {
		return
	}
	y := &t.tally
	if most := r.query.mostIncidents(); len(y.incidents) >= 2*most {
		for i := range most {
			r.details -= sizeOf(&y.incidents[i])
		}
		n := copy(y.incidents, y.incidents[most:])
		clear(y.incidents[n:])
		y.incidents = y.incidents[:n]
	}
	y.incidents = append(y.incidents, api.Incident{Start: time.UnixMilli(from).UTC(), Reason: t.reason, Text: t.text})
	if r.details += sizeOf(&y.incidents[len(y.incidents)-1]); r.details > r.most {
		r.evict()
	}
}

func sizeOf(i *api.Incident) int { return 128 + len(i.Reason) + len(i.Text) }

// evict drops the incidents of the upper half of the keys with incidents: another pass reads them.
func (r *reporter) evict() {
	var keys []Key
	for key, t := range r.tracks {
		if len(t.tally.incidents) > 0 {
			keys = append(keys, key)
		}
	}
	if len(keys) < 2 {
		return
	}
	slices.SortFunc(keys, func(a, b Key) int { return a.Compare(&b) })
	r.below = &keys[len(keys)/2]
	r.details = 0
	for _, key := range keys {
		y := &r.tracks[key].tally
		if key.Compare(r.below) >= 0 {
			y.incidents = nil
		}
		for i := range y.incidents {
			r.details += sizeOf(&y.incidents[i])
		}
	}
}

// item returns the report of a series whose last state ended at end.
func (r *reporter) item(t *track, end int64) *api.ReportItem {
	y := &t.tally
	item := &api.ReportItem{
		Namespace: t.key.Namespace, Pod: t.key.Pod, Container: t.key.Container, Kind: t.key.Kind.String(), Handler: t.handler,
		Seconds: api.StateSeconds{
			Success: seconds(y.millis[record.Success]), Warning: seconds(y.millis[record.Warning]),
			Failure: seconds(y.millis[record.Failure]), Unknown: seconds(y.millis[record.Unknown]),
			Maintenance: seconds(y.spared),
		},
		IncidentCount: y.count, LongestSeconds: seconds(y.longest), Incidents: []api.Incident{}, Parts: uptimes(y.parts),
	}
	var up, down int64
	for state, millis := range y.millis {
		switch s := record.State(state); {
		case s.IsUp():
			up += millis
		case s.IsDown():
			down += millis
		}
	}
	if up+down > 0 {
		item.Uptime = new(float64(up) / float64(up+down))
	}
	if y.count > 0 {
		item.MeanSeconds = seconds(down) / float64(y.count)
	}
	if n := len(y.incidents); n > 0 {
		if y.open || t.state == record.Failure && y.lastEnd == end {
			y.incidents[n-1].End = time.Time{}
		}
		item.Incidents = y.incidents[max(n-r.query.mostIncidents(), 0):]
		slices.Reverse(item.Incidents)
	}
	return item
}

func seconds(millis int64) float64 { return float64(millis) / 1000 }
