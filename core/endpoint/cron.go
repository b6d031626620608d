package endpoint

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Schedule says when a pushed check is expected, in the five fields of crontab(5). [ParseCron] makes it.
type Schedule struct {
	minute, hour, dom, month, dow uint64 // bits by value
	anyDom, anyDow                bool   // the field begins with *
	wild                          bool   // minute or hour begins with *: the schedule goes by the time that passes
	loc                           *time.Location
}

// The names of months and days.
var (
	monthNames = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	dayNames   = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
)

// shorthands are the names of Debian's cron.
var shorthands = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *",
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

// ParseCron reads a schedule in the five fields of crontab(5): minute, hour, day of the month, month, day of
// the week. They have lists, ranges, steps and English names; a day matches if either of its two restricted
// fields does. @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually are short for them. Times
// are in loc; nil means UTC.
//
// When the clock is put forward or back, a schedule behaves as Debian's cron does: with a fixed hour and
// minute, a time that is skipped comes when the clock has been put forward, and one that is repeated comes
// once. With * in the hour or the minute a schedule goes by the time that passes.
func ParseCron(text string, loc *time.Location) (*Schedule, error) {
	if loc == nil {
		loc = time.UTC
	}
	expanded := text
	if s, ok := shorthands[strings.ToLower(strings.TrimSpace(text))]; ok {
		expanded = s
	}
	fields := strings.Fields(expanded)
	if len(fields) != 5 {
		return nil, fmt.Errorf("cron schedule %.100q: must have five fields, and has %d", text, len(fields))
	}
	c := &Schedule{loc: loc}
	for i, f := range []struct {
		name     string
		bits     *uint64
		low, top int
		names    []string
	}{
		{"minute", &c.minute, 0, 59, nil}, {"hour", &c.hour, 0, 23, nil}, {"day of the month", &c.dom, 1, 31, nil},
		{"month", &c.month, 1, 12, monthNames}, {"day of the week", &c.dow, 0, 7, dayNames},
	} {
		var err error
		if *f.bits, err = cronField(fields[i], f.low, f.top, f.names); err != nil {
			return nil, fmt.Errorf("cron schedule %.100q: %s: %w", text, f.name, err)
		}
	}
	if c.dow&(1<<7) != 0 { // Sunday too
		c.dow |= 1
	}
	c.anyDom, c.anyDow = strings.HasPrefix(fields[2], "*"), strings.HasPrefix(fields[4], "*")
	c.wild = strings.HasPrefix(fields[0], "*") || strings.HasPrefix(fields[1], "*")
	if c.Next(time.Unix(0, 0)).IsZero() {
		return nil, fmt.Errorf("cron schedule %.100q: names no day that exists", text)
	}
	return c, nil
}

// cronField reads one field: a list of *, numbers, names and ranges, with steps.
func cronField(text string, low, top int, names []string) (bits uint64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		span, stepText, hasStep := strings.Cut(part, "/")
		step := 1
		if hasStep {
			if step, err = strconv.Atoi(stepText); err != nil || step < 1 {
				return 0, fmt.Errorf("the step %.20q must be a number above 0", stepText)
			}
		}
		from, to := low, top
		if span != "*" {
			first, last, isRange := strings.Cut(span, "-")
			if from, err = cronValue(first, low, top, names); err != nil {
				return 0, err
			}
			switch {
			case isRange:
				if to, err = cronValue(last, low, top, names); err != nil {
					return 0, err
				}
			case !hasStep:
				to = from
			}
			if to < from {
				return 0, fmt.Errorf("the range %.20q ends before it begins", span)
			}
		} else if top == 7 {
			to = 6
		}
		for v := from; v <= to; v += step {
			bits |= 1 << v
		}
	}
	return bits, nil
}

func cronValue(text string, low, top int, names []string) (int, error) {
	for i, name := range names {
		if strings.EqualFold(text, name) {
			return low + i, nil
		}
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < low || v > top {
		return 0, fmt.Errorf("%.20q must be from %d to %d", text, low, top)
	}
	return v, nil
}

func has(bits uint64, v int) bool { return bits&(1<<v) != 0 }

func (s *Schedule) onDay(t time.Time) bool {
	dom, dow := has(s.dom, t.Day()), has(s.dow, int(t.Weekday()))
	if s.anyDom || s.anyDow {
		return dom && dow
	}
	return dom || dow
}

// horizon bounds the search: 29 February may be eight years away, and its day of the week further.
const horizon = 41 * 366 * 24 * time.Hour

// Next returns the first time after t, or the zero time if there is none.
func (s *Schedule) Next(t time.Time) time.Time {
	if s.wild {
		return s.nextElapsed(t)
	}
	return s.nextOnClock(t)
}

// nextElapsed searches in the time that passes.
func (s *Schedule) nextElapsed(t time.Time) time.Time {
	end := t.Add(horizon)
	at := t.In(s.loc).Truncate(time.Minute).Add(time.Minute) // offsets are whole minutes since 1972
	for at.Before(end) {
		switch {
		case !has(s.month, int(at.Month())):
			at = later(at, time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, s.loc))
		case !s.onDay(at):
			at = later(at, time.Date(at.Year(), at.Month(), at.Day()+1, 0, 0, 0, 0, s.loc))
		case !has(s.hour, at.Hour()):
			at = at.Add(time.Duration(60-at.Minute()) * time.Minute)
		case !has(s.minute, at.Minute()):
			at = at.Add(time.Minute)
		default:
			return at
		}
	}
	return time.Time{}
}

// later returns next, or an hour after at if a change of the clock has put next before it.
func later(at, next time.Time) time.Time {
	if next.After(at) {
		return next
	}
	return at.Add(time.Hour)
}

// nextOnClock searches on the face of the clock, and then finds when it shows that time.
func (s *Schedule) nextOnClock(t time.Time) time.Time {
	local := t.In(s.loc)
	// at is a time of the clock as if it were UTC, so that every day has 24 hours.
	at := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0, time.UTC)
	if d := skipped(t, s.loc); d > 0 {
		at = at.Add(-d) // a time within what was skipped right before t was not yet due
	}
	for end := at.Add(horizon); at.Before(end); {
		at = at.Add(time.Minute)
		switch {
		case !has(s.month, int(at.Month())):
			at = time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Minute)
		case !s.onDay(at):
			at = time.Date(at.Year(), at.Month(), at.Day()+1, 0, 0, 0, 0, time.UTC).Add(-time.Minute)
		case !has(s.hour, at.Hour()):
			at = at.Truncate(time.Hour).Add(time.Hour - time.Minute)
		case has(s.minute, at.Minute()):
			if found := shows(at, s.loc); found.After(t) {
				return found
			}
		}
	}
	return time.Time{}
}

// skipped returns by how much the clock was put forward at t or in the minute before it.
func skipped(t time.Time, loc *time.Location) time.Duration {
	_, before := t.Add(-time.Minute).In(loc).Zone()
	_, now := t.In(loc).Zone()
	return max(0, time.Duration(now-before)*time.Second)
}

// shows returns when the clock of loc first shows a time, which is given as if it were UTC. For a time that
// is skipped it returns when the clock is put forward.
func shows(at time.Time, loc *time.Location) time.Time {
	_, before := at.Add(-26 * time.Hour).In(loc).Zone()
	_, after := at.Add(26 * time.Hour).In(loc).Zone()
	first, second := at.Add(-time.Duration(before)*time.Second), at.Add(-time.Duration(after)*time.Second)
	if second.Before(first) {
		first, second = second, first
	}
	for _, u := range []time.Time{first, second} {
		if same(u.In(loc), at) {
			return u.In(loc)
		}
	}
	// It is skipped: the clock is put forward between the two.
	low, high := first.Add(-time.Hour), second.Add(time.Hour)
	_, old := low.In(loc).Zone()
	for high.Sub(low) > time.Second {
		middle := low.Add(high.Sub(low) / 2)
		if _, offset := middle.In(loc).Zone(); offset == old {
			low = middle
		} else {
			high = middle
		}
	}
	return high.Truncate(time.Second).In(loc)
}

func same(local, at time.Time) bool {
	return local.Day() == at.Day() && local.Hour() == at.Hour() && local.Minute() == at.Minute()
}
