// Package window has windows of time, such as quiet hours: on a schedule, or once. It has no clock: callers
// pass the time.
package window

import (
	"errors"
	"slices"
	"time"

	"github.com/daeace23/prober/core/endpoint"
)

// Window is a set of spans of time. A span has its begin, but not its end. The zero window has no span.
// Windows are immutable.
type Window struct {
	schedule    *endpoint.Schedule // begins of the spans; nil: there is one span
	duration    time.Duration      // of each span of a schedule
	from, until time.Time          // the span of a window without a schedule
}

// maxTouching limits the search for a gap between the spans of a schedule.
const maxTouching = 10_000

// Recurring returns a window with a span of the given duration at each time of a schedule. The duration is
// elapsed time, as in [time.Time.Add]: a span of 9 hours that begins at 22:00 ends at 08:00 in the
// night in which the clock is put forward. Spans may overlap. It is an error if they leave no gap.
func Recurring(schedule *endpoint.Schedule, duration time.Duration) (Window, error) {
	w := Window{schedule: schedule, duration: duration}
	if duration <= 0 {
		return Window{}, errors.New("the duration must be positive")
	}
	_, end := w.Next(time.Unix(0, 0))
	for range maxTouching {
		if !w.Contains(end) {
			return w, nil
		}
		_, end = w.Next(end)
	}
	return Window{}, errors.New("the window never ends: the next one begins before the duration is over")
}

// Once returns a window with one span.
func Once(from, until time.Time) (Window, error) {
	if !from.Before(until) {
		return Window{}, errors.New("the window must end after it begins")
	}
	return Window{from: from, until: until}, nil
}

// Contains reports whether t is within a span.
func (w Window) Contains(t time.Time) bool {
	begin, end := w.Next(t)
	return !begin.After(t) && end.After(t)
}

// Next returns the first span that ends after t: the present one, if t is within a span. Both times are zero
// if there is none. At the end another span may have begun.
func (w Window) Next(t time.Time) (begin, end time.Time) {
	switch {
	case w.schedule != nil:
		if begin = w.schedule.Next(t.Add(-w.duration)); begin.IsZero() {
			return begin, begin
		}
		return begin, begin.Add(w.duration)
	case w.until.After(t):
		return w.from, w.until
	default:
		return time.Time{}, time.Time{}
	}
}

// List is a union of windows.
type List []Window

// Ends reports whether the windows leave a gap together.
func (l List) Ends() bool {
	if len(l) == 0 {
		return true
	}
	begin, _ := l[0].Next(time.Unix(0, 0))
	return !l.Contains(l.Until(begin))
}

// Contains reports whether t is within a span of a window.
func (l List) Contains(t time.Time) bool {
	return slices.ContainsFunc(l, func(w Window) bool { return w.Contains(t) })
}

// Until returns the time at which no span contains t any more; the zero time if none does. It joins spans
// that touch, up to a limit: if spans of many windows leave no gap, one of them may contain the result.
func (l List) Until(t time.Time) time.Time {
	end := t
	for range maxTouching {
		before := end
		for _, w := range l {
			if begin, e := w.Next(end); !begin.After(end) && e.After(end) {
				end = e
			}
		}
		if end.Equal(before) {
			break
		}
	}
	if end.Equal(t) {
		return time.Time{}
	}
	return end
}

// Change returns the first time after t at which a span begins or ends; the zero time if none does.
func (l List) Change(t time.Time) (at time.Time) {
	for _, w := range l {
		begin, end := w.Next(t)
		for _, x := range []time.Time{begin, end} {
			if x.After(t) && (at.IsZero() || x.Before(at)) {
				at = x
			}
		}
	}
	return at
}
