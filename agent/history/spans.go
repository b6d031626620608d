package history

import (
	"context"
	"time"

	"github.com/daeace23/prober/agent/history/record"
)

// Span is a time in which a series was in one state.
type Span struct {
	Key
	Handler  string
	State    record.State
	Spared   bool // reports count the time for no state
	From, To time.Time
}

// Spans calls each for the times from since until until in which the selected series existed, in no order.
// A state may have several spans.
func (s *Store) Spans(ctx context.Context, since, until time.Time, match func(*Key) bool, each func(*Span)) error {
	l := timeline{s: s, since: since.UnixMilli(), until: until.UnixMilli(), selects: match}
	l.passed = func(t *track, from, to int64) {
		if from, to = max(from, l.since), min(to, l.until); from < to && t.state != record.Absent {
			each(&Span{t.key, t.handler, t.state, t.spared, time.UnixMilli(from), time.UnixMilli(to)})
		}
	}
	_, err := l.read(ctx)
	return err
}
