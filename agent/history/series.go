package history

import (
	"slices"
	"time"

	"github.com/daeace23/prober/agent/history/record"
)

// series is a key of probes with its live probes.
type series struct {
	record.Series // the ID is 0 if none is assigned yet
	live          []*observed
	state         record.State
	spared        bool       // reports count its time for no state
	texts         int        // number of texts of its changes in this window
	hour          *durations // of probes that ended since the last hour was stored
}

// apply applies a change to its series, and records the new state.
func (w *writer) apply(c *change) {
	o := c.probe
	switch {
	case c.begins && o.series == nil:
		w.join(o, c.handler)
	case c.begins: // compare has joined it already
	case o.series == nil: // its begin was lost, and compare has not run since
	case c.ends:
		o.series.takeHour(o)
		o.series.live = slices.DeleteFunc(o.series.live, func(other *observed) bool { return other == o })
	case c.marks:
		o.exempt = c.spared
	default:
		o.decided = c.state
	}
	if o.series == nil {
		return
	}
	w.setHandler(o.series, c.handler)
	w.updateState(o.series, c)
	w.updateSpared(o.series, c.at)
}

// setHandler sets the handler of a series; "" changes nothing.
func (w *writer) setHandler(s *series, handler string) {
	if handler != "" && s.Handler != handler {
		s.Handler = handler
		w.queueSeries(s)
	}
}

// queueSeries queues a series with an ID to be written again.
func (w *writer) queueSeries(s *series) {
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
		w.queueSeries(s)
	}
	o.series = s
	s.live = append(s.live, o)
}

// forget drops the series without live probes, unless durations of their last hour are to be stored. A later probe with the same key gets a new ID.
func (w *writer) forget(now time.Time) {
	for key, s := range w.series {
		if len(s.live) > 0 || s.hour != nil {
			s.texts = 0
			continue
		}
		if s.Ended == 0 { // its probes were of an earlier run of the agent
			s.Ended = now.UnixMilli()
			w.queueSeries(s)
		}
		delete(w.series, key)
	}
}

// currentState returns the state of the newest live probe that has decided one. It is Unknown if none has,
// and Absent if no probe is live.
func (s *series) currentState() record.State {
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

// updateState records the state of a series after a change.
func (w *writer) updateState(s *series, c *change) {
	next := s.currentState()
	undecided := next == record.Unknown && c.reason != "" // still undecided, but the reason is known now
	if next == s.state && !undecided {
		return
	}
	if next == record.Absent {
		s.Ended, s.spared = c.at, false
		w.queueSeries(s)
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

// updateSpared records whether the time of a series is spared: one of its live probes is.
func (w *writer) updateSpared(s *series, at int64) {
	next := slices.ContainsFunc(s.live, func(o *observed) bool { return o.exempt })
	if next == s.spared {
		return
	}
	s.spared = next
	if w.full() {
		w.lost = true
		w.s.dropped(1)
		return
	}
	w.mark(s, at)
}

// mark adds the event that says whether the time of a series is spared.
func (w *writer) mark(s *series, at int64) {
	reason := record.Counted
	if s.spared {
		reason = record.Spared
	}
	w.add(&record.Event{Op: record.Change, State: s.state, ID: w.idOf(s), Time: at, Reason: reason})
}

// compare recomputes the states of all series from the live probes, after changes were lost.
func (w *writer) compare(now time.Time) {
	exists := make(map[*observed]bool)
	for _, e := range w.s.intake.probes() {
		exists[e.observed] = true
		if e.observed.series == nil {
			w.join(e.observed, e.handler)
		}
		e.decided, e.exempt = e.state, e.spared
		w.setHandler(e.observed.series, e.handler)
		w.updateState(e.observed.series, &change{at: e.since})
	}
	for _, s := range w.series {
		s.live = slices.DeleteFunc(s.live, func(o *observed) bool { return !exists[o] })
		w.updateState(s, &change{at: now.UnixMilli()})
		w.updateSpared(s, now.UnixMilli())
	}
}

// takeHour moves the durations of a probe since the last hour to its series.
func (s *series) takeHour(o *observed) {
	if s.hour == nil {
		s.hour = new(durations)
	}
	o.addHourTo(s.hour, true)
}

// endHour returns the percentiles of the durations since the last call.
func (s *series) endHour() (tracks []record.Track) {
	for _, o := range s.live {
		s.takeHour(o)
	}
	if s.hour != nil {
		tracks = s.hour.tracks()
	}
	s.hour = nil
	return tracks
}

// sample returns the aggregate of the ticks of a series since the last call; ok is false if it had none.
func (s *series) sample() (sample record.Sample, ok bool) {
	var sum, ticks uint64
	var longest uint32
	for _, o := range s.live {
		counts, total, most := o.take()
		for i, n := range counts {
			n = min(n, ^sample.Counts[i])
			sample.Counts[i] += n
			ticks += uint64(n)
		}
		sum += total
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
