package history

import (
	"context"
	"fmt"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/history/record"
)

// maxChanges is the maximum number of changes within a window of four hours, which are in memory together.
const maxChanges = 1 << 17

// ChangeQuery selects changes.
type ChangeQuery struct {
	Since, Until time.Time
	Match        func(*Key) bool
}

// changeReader collects the changes of windows.
type changeReader struct {
	timeline
	told    map[*track]record.State // state of a series in the last change; absent before the first one
	changes []api.StateChange       // of a window
	each    func(*api.StateChange) error
}

// Changes calls begin with the start, which is not before the oldest kept history. Then it calls each for every
// change of the state of a probe, in windows of four hours, oldest first. The changes of a window are almost in the
// order of time. The first change of a probe that existed at the start is
// from absent to its state then. A stop of the agent is no change: a probe that it has again afterwards goes on.
// No transaction is open while each runs.
func (s *Store) Changes(ctx context.Context, q *ChangeQuery, begin func(since time.Time) error, each func(*api.StateChange) error) error {
	since := q.Since
	if oldest := s.Oldest(); since.Before(oldest) {
		since = oldest
	}
	if err := begin(since); err != nil {
		return err
	}
	r := changeReader{told: make(map[*track]record.State), each: each}
	r.timeline = timeline{
		s: s, since: since.UnixMilli(), until: q.Until.UnixMilli(), selects: q.Match, windowRead: r.deliver, changed: r.change,
		passed: r.passed,
	}
	if _, err := r.read(ctx); err != nil {
		return err
	}
	for _, t := range r.tracks {
		if t.state == record.Absent && t.since < min(r.snapshot, r.until) {
			r.tell(t, t.since, record.Absent, "", "") // it ended while the agent did not run
		}
	}
	return r.deliver()
}

func (r *changeReader) toldOf(t *track) record.State {
	if state, ok := r.told[t]; ok {
		return state
	}
	return record.Absent
}

// change implements timeline.changed.
func (r *changeReader) change(t *track, at int64, next record.State, reason, text string) {
	again := t.state == record.Absent && !t.removed && next == record.Unknown && reason == ""
	if !r.stopping && !again { // a probe that begins again, without a verdict yet, is in its last state
		r.tell(t, at, next, reason, text)
	}
}

// passed implements timeline.passed: it reports the first state of a series within the time.
func (r *changeReader) passed(t *track, from, to int64) {
	if r.toldOf(t) == record.Absent && t.state != record.Absent && from <= r.until && to >= r.since {
		r.tell(t, from, t.state, t.reason, t.text)
	}
}

func (r *changeReader) tell(t *track, at int64, next record.State, reason, text string) {
	from := r.toldOf(t)
	if from == next && !(next == record.Unknown && reason != "") || len(r.changes) > maxChanges {
		return
	}
	r.told[t] = next
	r.changes = append(r.changes, api.StateChange{
		Namespace: t.key.Namespace, Pod: t.key.Pod, Container: t.key.Container, Kind: t.key.Kind.String(), Handler: t.handler,
		Transition:  api.Transition{Time: time.UnixMilli(max(at, r.since)).UTC(), From: from.String(), To: next.String(), Reason: reason, Text: text},
		Maintenance: t.spared,
	})
}

// deliver delivers the changes of a window.
func (r *changeReader) deliver() error {
	if len(r.changes) > maxChanges {
		return fmt.Errorf("more than %d changes within four hours", maxChanges)
	}
	for i := range r.changes {
		if err := r.each(&r.changes[i]); err != nil {
			return err
		}
	}
	r.changes = r.changes[:0]
	return nil
}
