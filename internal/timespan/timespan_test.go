package timespan_test

import (
	"testing"
	"time"

	"github.com/daeace23/prober/internal/timespan"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "12h": 12 * time.Hour, "90m": 90 * time.Minute, "1h30m": 90 * time.Minute, "5s": 5 * time.Second,
		"": 0, "0s": 0, "-1h": 0, "1d-1h": 0, "d": 0, "30": 0, "65535d": 65535 * 24 * time.Hour, "99999d": 0, "1d99999999h": 0, "3w": 0, "+1d": 0,
	} {
		if got, err := timespan.Parse(text); got != want || (err == nil) != (want != 0) {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for d, want := range map[time.Duration]string{720 * time.Hour: "30d", 36 * time.Hour: "1d12h", 90 * time.Minute: "1h30m", time.Hour: "1h", 5 * time.Second: "5s", 10 * time.Minute: "10m"} {
		if got := timespan.Format(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestBefore(t *testing.T) {
	now := time.Date(2026, 7, 31, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"30d": "2026-07-01T12:00:00Z", "2026-01-02": "2026-01-02T00:00:00Z", "2026-01-02T03:04:05+01:00": "2026-01-02T02:04:05Z",
		"yesterday": `"yesterday" must be a duration such as 30d or 12h, or a time such as 2026-01-02T15:04:05Z`,
	} {
		at, err := timespan.Before(text, now)
		got := at.UTC().Format(time.RFC3339)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

func TestLocal(t *testing.T) {
	now := time.Date(2026, 11, 30, 9, 30, 0, 0, time.FixedZone("CET", 3600))
	const wrong = " must be a duration such as 30d or 12h, a date such as 2026-11-30, a time such as '2026-11-30 14:00', today or yesterday"
	for text, want := range map[string]string{
		"30m": "2026-11-30T09:00:00+01:00", "2d": "2026-11-28T09:30:00+01:00", "now": "2026-11-30T09:30:00+01:00",
		"2026-11-29": "2026-11-29T00:00:00+01:00", "2026-11-29 14:00": "2026-11-29T14:00:00+01:00", "2026-11-29 14:00:05": "2026-11-29T14:00:05+01:00",
		"2026-11-29T14:00": "2026-11-29T14:00:00+01:00", "2026-11-29T14:00:00Z": "2026-11-29T14:00:00Z", "2026-11-29T14:00:00-05:00": "2026-11-29T14:00:00-05:00",
		"yesterday": "2026-11-29T00:00:00+01:00", "yesterday 14:00": "2026-11-29T14:00:00+01:00", "today": "2026-11-30T00:00:00+01:00", "08:15": "2026-11-30T08:15:00+01:00",
		"today 08:15:30": "2026-11-30T08:15:30+01:00",
		"":               `""` + wrong, "tomorrow": `"tomorrow"` + wrong, "now 14:00": `"now 14:00"` + wrong, "2026-13-01": `"2026-13-01"` + wrong, "yesterday 25:00": `"yesterday 25:00"` + wrong,
	} {
		at, err := timespan.Local(text, now)
		got := at.Format(time.RFC3339)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

func FuzzFormatReadsBack(f *testing.F) {
	for _, d := range []time.Duration{1, time.Microsecond, 1500 * time.Microsecond, time.Second, 61 * time.Second, 25 * time.Hour, 65535 * 24 * time.Hour} {
		f.Add(int64(d))
	}
	f.Fuzz(func(t *testing.T, n int64) {
		d := time.Duration(n)
		if d <= 0 || d > 65535*24*time.Hour {
			return
		}
		text := timespan.Format(d)
		if got, err := timespan.Parse(text); err != nil || got != d {
			t.Errorf("%d is %q, which is read as %v, %v", n, text, got, err)
		}
	})
}
