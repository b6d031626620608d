package history

import (
	"slices"
	"time"

	"github.com/daeace23/prober/agent/history/record"
)

// series is a name of probes, with those that exist.
type series struct {
	record.Series // the ID is 0 if it has none yet
	live          []*observed
	state         record.State
	texts         int // of its changes in this window
}

// apply applies a change to its series, and notes the new state of that.
func (w *writer) apply(c *change) {
	o := c.of
	switch {
	case c.begins && o.series == nil:
		w.join(o, c.handler)
	case c.begins: // compare has seen it
	case o.series == nil: // its begin was lost, and compare has not seen it
	case c.ends:
		o.series.live = slices.DeleteFunc(o.series.live, func(other *observed) bool { return other == o })
	default:
		o.decided = c.state
	}
	if o.series == nil {
		return
	}
	w.handledBy(o.series, c.handler)
	w.renew(o.series, c)
}

// handledBy notes the handler of a series; "" changes nothing.
func (w *writer) handledBy(s *series, handler string) {
	if handler != "" && s.Handler != handler {
		s.Handler = handler
		w.stale(s)
	}
}

// stale has a series that has an ID written again.
func (w *writer) stale(s *series) {
	if s.ID != 0 && !w.full() {
		w.fresh = append(w.fresh, s.Series)
	}
}

// idOf returns the ID of a series.
func (w *writer) idOf(s *series) uint32 {
	if s.ID == 0 {
		w.lastID++
		s.ID = w.lastID
		w.fresh = append(w.fresh, s.Series)
	}
	return s.ID
}

// join adds a probe to its series.
func (w *writer) join(o *observed, handler string) {
	s := w.series[o.key]
	if s == nil {
		s = &series{Series: record.Series{Key: o.key, Handler: handler}, state: record.Absent}
		w.series[o.key] = s
	}
	if s.Ended != 0 {
		s.Ended = 0
		w.stale(s)
	}
	o.series = s
	s.live = append(s.live, o)
}

// forget drops the series that have no probe any more. A probe of the same names gets another ID.
func (w *writer) forget(now time.Time) {
	for key, s := range w.series {
		if len(s.live) > 0 {
			s.texts = 0
			continue
		}
		if s.Ended == 0 { // it was that of an agent before
			s.Ended = now.UnixMilli()
			w.stale(s)
		}
		delete(w.series, key)
	}
}

// stateOf returns the state of a series: that of the newest probe that has decided one.
func (s *series) stateOf() record.State {
	if len(s.live) == 0 {
		return record.Absent
	}
	for _, o := range slices.Backward(s.live) {
		if o.decided != record.Unknown {
			return o.decided
		}
	}
	return record.Unknown
}

// renew notes the state of a series after a change.
func (w *writer) renew(s *series, c *change) {
	next := s.stateOf()
	cannot := next == record.Unknown && c.reason != "" // it has decided nothing, and now it is known why
	if next == s.state && !cannot {
		return
	}
	if next == record.Absent {
		s.Ended = c.at
		w.stale(s)
	}
	s.state = next
	if w.full() {
		w.lost = true
		w.s.dropped(1)
		return
	}
	text := c.text
	if text != "" {
		if s.texts++; s.texts > maxTexts {
			text = ""
		}
	}
	w.add(&record.Event{Op: record.Change, State: next, ID: w.idOf(s), Time: c.at, Reason: c.reason, Text: text})
}

// compare finds what has become of probes, after changes were lost.
func (w *writer) compare(now time.Time) {
	exists := make(map[*observed]bool)
	for _, e := range w.s.intake.all() {
		exists[e.observed] = true
		if e.observed.series == nil {
			w.join(e.observed, e.handler)
		}
		e.decided = e.state
		w.handledBy(e.observed.series, e.handler)
		w.renew(e.observed.series, &change{at: e.since})
	}
	for _, s := range w.series {
		s.live = slices.DeleteFunc(s.live, func(o *observed) bool { return !exists[o] })
		w.renew(s, &change{at: now.UnixMilli()})
	}
}

// sample returns the aggregate of a series; ok is false if it had no ticks.
func (s *series) sample() (sample record.Sample, ok bool) {
	var sum, ticks uint64
	var longest uint32
	for _, o := range s.live {
		counts, of, most := o.take()
		for i, n := range counts {
			n = min(n, ^sample.Counts[i])
			sample.Counts[i] += n
			ticks += uint64(n)
		}
		sum += of
		longest = max(longest, most)
	}
	if ticks == 0 {
		return sample, false
	}
	mean := time.Duration(sum/ticks) * time.Microsecond
	sample.Mean = record.BinOf(mean)
	sample.Max = max(sample.Mean, record.BinOf(time.Duration(longest)*time.Microsecond))
	return sample, true
}
