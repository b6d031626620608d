package endpoint

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// Riga puts the clock forward at 3:00 on 31 March 2024, and back at 4:00 on 27 October 2024. New York does at
// 2:00 on 10 March and on 3 November. Lord Howe moves by half an hour, at 2:00 on 6 October and on 7 April.
func TestCronOverChangesOfTheClock(t *testing.T) {
	for _, c := range []struct {
		text, zone, after string
		want              []string // in UTC
	}{
		{"30 3 * * *", "Europe/Riga", "2024-03-30T00:00:00Z", []string{"2024-03-30T01:30:00Z", "2024-03-31T01:00:00Z", "2024-04-01T00:30:00Z"}},
		{"0 3,4 31 3 *", "Europe/Riga", "2024-03-30T12:00:00Z", []string{"2024-03-31T01:00:00Z", "2025-03-31T00:00:00Z"}},
		{"*/30 * * * *", "Europe/Riga", "2024-03-31T00:20:00Z", []string{"2024-03-31T00:30:00Z", "2024-03-31T01:00:00Z", "2024-03-31T01:30:00Z"}},
		{"30 * * * *", "Europe/Riga", "2024-03-31T00:00:00Z", []string{"2024-03-31T00:30:00Z", "2024-03-31T01:30:00Z"}},
		{"*/15 3 * * *", "Europe/Riga", "2024-03-30T02:00:00Z", []string{"2024-04-01T00:00:00Z"}}, // an hour that this day lacks
		{"30 3 * * *", "Europe/Riga", "2024-10-26T12:00:00Z", []string{"2024-10-27T00:30:00Z", "2024-10-28T01:30:00Z"}},
		{"30 * * * *", "Europe/Riga", "2024-10-26T23:59:00Z", []string{"2024-10-27T00:30:00Z", "2024-10-27T01:30:00Z", "2024-10-27T02:30:00Z"}},
		{"30 2 * * *", "America/New_York", "2024-03-09T12:00:00Z", []string{"2024-03-10T07:00:00Z", "2024-03-11T06:30:00Z"}},
		{"30 1 * * *", "America/New_York", "2024-11-02T12:00:00Z", []string{"2024-11-03T05:30:00Z", "2024-11-04T06:30:00Z"}},
		{"15 2 * * *", "Australia/Lord_Howe", "2024-10-05T03:00:00Z", []string{"2024-10-05T15:30:00Z", "2024-10-06T15:15:00Z"}},
		{"45 1 * * *", "Australia/Lord_Howe", "2024-04-05T20:00:00Z", []string{"2024-04-06T14:45:00Z", "2024-04-07T15:15:00Z"}},
		{"0 0 29 2 *", "UTC", "2024-03-01T00:00:00Z", []string{"2028-02-29T00:00:00Z"}},
		{"0 12 13 * fri", "UTC", "2024-09-01T00:00:00Z", []string{"2024-09-06T12:00:00Z", "2024-09-13T12:00:00Z", "2024-09-20T12:00:00Z"}},
		{"@weekly", "UTC", "2024-09-01T00:00:00Z", []string{"2024-09-08T00:00:00Z"}},
		{"0 9 * * mon-fri", "Europe/Riga", "2024-03-29T12:00:00Z", []string{"2024-04-01T06:00:00Z"}},
		{"59 23 31 12 7", "UTC", "2024-12-30T00:00:00Z", []string{"2024-12-31T23:59:00Z"}},
	} {
		s, err := ParseCron(c.text, zone(t, c.zone))
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			at = s.Next(at)
			if got := at.UTC().Format(time.RFC3339); got != want {
				t.Errorf("%s in %s: got %s, want %s", c.text, c.zone, got, want)
				break
			}
		}
	}
}

// In UTC the next time is the first minute that matches, found by trying each.
func TestCronMatchesMinutes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		minute, hour := fmt.Sprintf("%d-%d/%d", rng.IntN(30), 30+rng.IntN(30), 1+rng.IntN(20)), fmt.Sprintf("%d,%d", rng.IntN(24), rng.IntN(24))
		text := strings.Join([]string{minute, hour, [...]string{"*", "1-15", "31", "*/2"}[rng.IntN(4)], [...]string{"*", "jan-jun", "3,9"}[rng.IntN(3)], [...]string{"*", "mon", "0-3", "7"}[rng.IntN(4)]}, " ")
		s, err := ParseCron(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(1_700_000_000+rng.Int64N(40_000_000), rng.Int64N(1e9)).UTC()
		got := s.Next(at)
		for want := at.Truncate(time.Minute).Add(time.Minute); ; want = want.Add(time.Minute) {
			if has(s.minute, want.Minute()) && has(s.hour, want.Hour()) && has(s.month, int(want.Month())) && s.onDay(want) {
				if !got.Equal(want) {
					t.Errorf("%s after %v: got %v, want %v", text, at, got, want)
				}
				break
			}
		}
	}
}

func TestCronErrorsNameField(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "must have five fields, and has 0",
		"* * * *":          "must have five fields, and has 4",
		"60 * * * *":       `minute: "60" must be from 0 to 59`,
		"* 24 * * *":       `hour: "24" must be from 0 to 23`,
		"* * 0 * *":        `day of the month: "0" must be from 1 to 31`,
		"* * * foo *":      `month: "foo" must be from 1 to 12`,
		"* * * * 8":        `day of the week: "8" must be from 0 to 7`,
		"5-2 * * * *":      `minute: the range "5-2" ends before it begins`,
		"*/0 * * * *":      `minute: the step "0" must be a number above 0`,
		"1,,2 * * * *":     `minute: "" must be from 0 to 59`,
		"0 0 31 feb,apr *": "names no day that exists",
		"@reboot":          "must have five fields, and has 1",
	} {
		if _, err := ParseCron(text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got the error %v, want %q", text, err, want)
		}
	}
}

func FuzzCron(f *testing.F) {
	for _, text := range []string{"30 3 * * *", "*/7 * * * *", "0 0 29 2 *", "@daily", "1-5/2,9 0 1 jan-mar 7"} {
		f.Add(text, int64(1_711_846_740), uint8(1))
	}
	zones := []*time.Location{time.UTC}
	for _, name := range []string{"Europe/Riga", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu"} {
		if loc, err := time.LoadLocation(name); err == nil {
			zones = append(zones, loc)
		}
	}
	f.Fuzz(func(t *testing.T, text string, unix int64, z uint8) {
		s, err := ParseCron(text, zones[int(z)%len(zones)])
		if err != nil {
			return
		}
		at := time.Unix(unix%4_000_000_000, 0)
		next := s.Next(at)
		if !next.IsZero() && !next.After(at) {
			t.Fatalf("%q after %v: %v", text, at, next)
		}
		if half := at.Add(next.Sub(at) / 2); !next.IsZero() && half.After(at) && !s.Next(half).Equal(next) {
			t.Fatalf("%q: after %v it is %v, and after %v it is %v", text, at, next, half, s.Next(half))
		}
	})
}
