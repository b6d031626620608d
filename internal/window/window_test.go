package window_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/daeace23/prober/core/endpoint"
	"github.com/daeace23/prober/internal/window"
)

func recurring(t *testing.T, cron, zone string, d time.Duration) window.Window {
	t.Helper()
	w, err := tryRecurring(t, cron, zone, d)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func tryRecurring(t *testing.T, cron, zone string, d time.Duration) (window.Window, error) {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	s, err := endpoint.ParseCron(cron, loc)
	if err != nil {
		t.Fatal(err)
	}
	return window.Recurring(s, d)
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

// Riga puts the clock forward at 3:00 on 31 March 2024, and back at 4:00 on 27 October 2024. New York does at
// 2:00 on 10 March and on 3 November.
func TestNext(t *testing.T) {
	for _, c := range []struct {
		cron, zone string
		duration   time.Duration
		t          string
		want       string // begin/end in UTC
	}{
		{"0 22 * * *", "Europe/Riga", 9 * time.Hour, "2024-01-10T12:00:00Z", "2024-01-10T20:00:00Z/2024-01-11T05:00:00Z"},
		{"0 22 * * *", "Europe/Riga", 9 * time.Hour, "2024-01-10T20:00:00Z", "2024-01-10T20:00:00Z/2024-01-11T05:00:00Z"},
		{"0 22 * * *", "Europe/Riga", 9 * time.Hour, "2024-01-11T04:59:59Z", "2024-01-10T20:00:00Z/2024-01-11T05:00:00Z"},
		{"0 22 * * *", "Europe/Riga", 9 * time.Hour, "2024-01-11T05:00:00Z", "2024-01-11T20:00:00Z/2024-01-12T05:00:00Z"},
		// The night without 3:00 to 4:00: 9 hours end at 8:00.
		{"0 22 * * *", "Europe/Riga", 9 * time.Hour, "2024-03-31T04:30:00Z", "2024-03-30T20:00:00Z/2024-03-31T05:00:00Z"},
		{"30 3 * * *", "Europe/Riga", time.Hour, "2024-03-31T00:00:00Z", "2024-03-31T01:00:00Z/2024-03-31T02:00:00Z"},
		// The night with 3:00 to 4:00 twice: 9 hours end at 6:00, and 3:30 comes once.
		{"0 22 * * *", "Europe/Riga", 9 * time.Hour, "2024-10-27T03:59:00Z", "2024-10-26T19:00:00Z/2024-10-27T04:00:00Z"},
		{"30 3 * * *", "Europe/Riga", 30 * time.Minute, "2024-10-27T01:30:00Z", "2024-10-28T01:30:00Z/2024-10-28T02:00:00Z"},
		{"30 2 * * *", "America/New_York", 2 * time.Hour, "2024-03-10T08:00:00Z", "2024-03-10T07:00:00Z/2024-03-10T09:00:00Z"},
		{"0 22 * * sat", "America/New_York", 9 * time.Hour, "2024-03-10T11:59:00Z", "2024-03-10T03:00:00Z/2024-03-10T12:00:00Z"},
		{"30 1 * * *", "America/New_York", time.Hour, "2024-11-03T06:30:00Z", "2024-11-04T06:30:00Z/2024-11-04T07:30:00Z"},
		{"0 22 * * mon-fri", "UTC", 9 * time.Hour, "2024-11-30T08:00:00Z", "2024-12-02T22:00:00Z/2024-12-03T07:00:00Z"},
	} {
		w := recurring(t, c.cron, c.zone, c.duration)
		begin, end := w.Next(at(t, c.t))
		if got := begin.UTC().Format(time.RFC3339) + "/" + end.UTC().Format(time.RFC3339); got != c.want {
			t.Errorf("%s in %s at %s: got %s, want %s", c.cron, c.zone, c.t, got, c.want)
		}
		if got, want := w.Contains(at(t, c.t)), !begin.After(at(t, c.t)); got != want {
			t.Errorf("%s in %s: contains %s: got %t", c.cron, c.zone, c.t, got)
		}
	}
}

// A minute is within a window if a span began at most its duration earlier, found by walking the schedule.
func TestContainsOverChangesOfTheClock(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, zone := range []string{"Europe/Riga", "America/New_York", "Australia/Lord_Howe"} {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range []time.Time{
			time.Date(2024, 3, 10, 0, 0, 0, 0, loc), time.Date(2024, 3, 31, 0, 0, 0, 0, loc), time.Date(2024, 4, 7, 0, 0, 0, 0, loc),
			time.Date(2024, 10, 6, 0, 0, 0, 0, loc), time.Date(2024, 10, 27, 0, 0, 0, 0, loc), time.Date(2024, 11, 3, 0, 0, 0, 0, loc),
		} {
			cron := fmt.Sprintf("%d %d * * *", rng.IntN(60), rng.IntN(24))
			duration := time.Duration(1+rng.IntN(20*60)) * time.Minute
			s, err := endpoint.ParseCron(cron, loc)
			if err != nil {
				t.Fatal(err)
			}
			w, inside := recurring(t, cron, zone, duration), make(map[time.Time]bool)
			for begin := s.Next(change.AddDate(0, 0, -4)); begin.Before(change.AddDate(0, 0, 3)); begin = s.Next(begin) {
				for m := time.Duration(0); m < duration; m += time.Minute {
					inside[begin.Add(m).UTC()] = true
				}
			}
			for m := change.AddDate(0, 0, -1); m.Before(change.AddDate(0, 0, 2)); m = m.Add(time.Minute) {
				if got := w.Contains(m); got != inside[m.UTC()] {
					t.Errorf("%s for %s in %s at %v: got %t", cron, duration, zone, m, got)
					break
				}
			}
		}
	}
}

func TestRecurringRefusesWindowsThatNeverEnd(t *testing.T) {
	for _, c := range []struct {
		cron     string
		duration time.Duration
		want     string
	}{
		{"0 22 * * *", 24 * time.Hour, "never ends"},
		{"*/5 * * * *", 5 * time.Minute, "never ends"},
		{"*/5 * * * *", 4 * time.Minute, ""},
		{"* * * * mon-fri", time.Minute, ""}, // touching spans with a gap at the weekend
		{"0 0 29 2 *", 24 * time.Hour, ""},
		{"0 22 * * *", 0, "must be positive"},
	} {
		_, err := tryRecurring(t, c.cron, "UTC", c.duration)
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && !strings.Contains(got, c.want) {
			t.Errorf("%s for %s: got %v, want %q", c.cron, c.duration, err, c.want)
		}
	}
}

func TestOnce(t *testing.T) {
	from, until := at(t, "2024-12-24T00:00:00Z"), at(t, "2024-12-27T00:00:00Z")
	w, err := window.Once(from, until)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		t    time.Time
		want bool
	}{{from.Add(-1), false}, {from, true}, {until.Add(-1), true}, {until, false}} {
		if got := w.Contains(c.t); got != c.want {
			t.Errorf("contains %v: got %t", c.t, got)
		}
	}
	if begin, end := w.Next(from.Add(-time.Hour)); !begin.Equal(from) || !end.Equal(until) {
		t.Errorf("next: got %v, %v", begin, end)
	}
	if begin, end := w.Next(until); !begin.IsZero() || !end.IsZero() {
		t.Errorf("next after the end: got %v, %v", begin, end)
	}
	if _, err := window.Once(until, from); err == nil {
		t.Error("a window that ends before it begins has no error")
	}
	if (window.Window{}).Contains(time.Time{}) || (window.Window{}).Contains(from) {
		t.Error("the zero window contains a time")
	}
}

func TestList(t *testing.T) {
	once, err := window.Once(at(t, "2024-12-24T12:00:00Z"), at(t, "2024-12-26T23:00:00Z"))
	if err != nil {
		t.Fatal(err)
	}
	l := window.List{recurring(t, "0 22 * * *", "UTC", 9*time.Hour), once}
	for _, c := range []struct{ t, until, change string }{
		{"2024-12-20T12:00:00Z", "", "2024-12-20T22:00:00Z"},
		{"2024-12-20T22:00:00Z", "2024-12-21T07:00:00Z", "2024-12-21T07:00:00Z"},
		{"2024-12-24T12:00:00Z", "2024-12-27T07:00:00Z", "2024-12-24T22:00:00Z"}, // joined with the next night
		{"2024-12-26T22:30:00Z", "2024-12-27T07:00:00Z", "2024-12-26T23:00:00Z"},
	} {
		now := at(t, c.t)
		until := ""
		if u := l.Until(now); !u.IsZero() {
			until = u.Format(time.RFC3339)
		}
		if until != c.until || l.Contains(now) != (c.until != "") {
			t.Errorf("at %s: quiet until %q, want %q; contains %t", c.t, until, c.until, l.Contains(now))
		}
		if got := l.Change(now).Format(time.RFC3339); got != c.change {
			t.Errorf("at %s: changes at %s, want %s", c.t, got, c.change)
		}
	}
	var none window.List
	if now := at(t, "2024-12-20T12:00:00Z"); none.Contains(now) || !none.Until(now).IsZero() || !none.Change(now).IsZero() {
		t.Error("an empty list has spans")
	}
}
