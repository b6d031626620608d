// Package timespan parses and formats durations with days, and times.
package timespan

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// Parse parses a duration such as "30d", "1d12h", "12h" or "90m". The duration must be positive.
func Parse(text string) (time.Duration, error) {
	wrong := fmt.Errorf("%q must be a duration such as 30d, 12h or 90m", text)
	days, rest, ok := strings.Cut(text, "d")
	if !ok {
		days, rest = "0", text
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return 0, wrong
	}
	d := time.Duration(n) * day
	if rest != "" {
		more, err := time.ParseDuration(rest)
		if err != nil || more < 0 {
			return 0, wrong
		}
		d += more
	}
	if d <= 0 { // zero, or overflow
		return 0, wrong
	}
	return d, nil
}

// Format returns d in the format of [Parse].
func Format(d time.Duration) string {
	switch rest := d % day; {
	case d < day:
		return trim(d.String())
	case rest == 0:
		return fmt.Sprintf("%dd", d/day)
	default:
		return fmt.Sprintf("%dd%s", d/day, trim(rest.String()))
	}
}

// trim removes the units that are 0.
func trim(text string) string {
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Before parses a time, such as "2026-01-02T15:04:05Z" or "2026-01-02", or a duration, for which it returns the time
// before now.
func Before(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	d, err := Parse(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q must be a duration such as 30d or 12h, or a time such as 2026-01-02T15:04:05Z", text)
	}
	return now.Add(-d), nil
}

// localLayouts are the formats of a time without a zone, and timeLayouts the formats of a time of a day.
var (
	localLayouts = []string{time.DateOnly, "2006-01-02 15:04", time.DateTime, "2006-01-02T15:04", "2006-01-02T15:04:05"}
	timeLayouts  = []string{"15:04", time.TimeOnly}
)

// Local parses what a user writes for a time: a duration, for which it returns the time before now; a time in RFC 3339;
// or, in the time zone of now, a date, a date and a time, a time of this day, and the words "now", "today" and
// "yesterday", after which a time may follow. A day without a time is its first moment.
func Local(text string, now time.Time) (time.Time, error) {
	if d, err := Parse(text); err == nil {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, layout := range localLayouts {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	word, rest, _ := strings.Cut(text, " ")
	day := now
	switch word {
	case "now":
		if rest == "" {
			return now, nil
		}
	case "yesterday":
		day = now.AddDate(0, 0, -1)
	case "today":
	default:
		rest = text
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, cmp.Or(rest, "00:00")); err == nil && word != "now" && word != "" {
			return time.Date(day.Year(), day.Month(), day.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location()), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q must be a duration such as 30d or 12h, a date such as %s, a time such as '%s 14:00', today or yesterday",
		text, now.Format(time.DateOnly), now.Format(time.DateOnly))
}
