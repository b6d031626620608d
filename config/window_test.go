package config_test

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/daeace23/prober/config"
)

func TestQuiet(t *testing.T) {
	c, err := config.Parse("f", []byte(head+`notify:
  receivers:
  - name: ops
    webhook: {url: "http://h"}
    timeZone: Europe/Riga
    quiet:
    - {schedule: "0 22 * * mon-fri", duration: 9h}
    - {from: 2026-12-24T18:00, until: "2026-12-27T00:00:00+02:00", timeZone: Europe/Riga}
`))
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{
		"2026-11-30T19:59:59Z": "", "2026-11-30T20:00:00Z": "2026-12-01T05:00:00Z", "2026-11-28T20:00:00Z": "",
		"2026-12-24T15:59:59Z": "", "2026-12-24T16:00:00Z": "2026-12-26T22:00:00Z",
	} {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if end := c.Notify.Receivers[0].Quiet.Until(now); !end.IsZero() {
			got = end.UTC().Format(time.RFC3339)
		}
		if got != want {
			t.Errorf("at %s: quiet until %q, want %q", at, got, want)
		}
	}
}

func TestQuietErrors(t *testing.T) {
	for text, want := range map[string]string{
		"{}":                   "quiet[0]: must have schedule and duration, or from and until",
		"{schedule: '@daily'}": "quiet[0]: must have schedule and duration, or from and until",
		"{duration: 1h, from: 2026-12-24T18:00, until: 2026-12-24T19:00}": "quiet[0]: must have schedule and duration, or from and until",
		"{from: 2026-12-24T18:00}":                                        "quiet[0]: must have schedule and duration, or from and until",
		"{schedule: '@daily', duration: 24h}":                             "quiet[0].duration: the window never ends: the next one begins before the duration is over",
		"{schedule: '@daily', duration: 745h}":                            "quiet[0].duration: must be from 1m0s to 744h0m0s",
		"{schedule: 0 22 * *, duration: 1h}":                              `quiet[0].schedule: cron schedule "0 22 * *": must have five fields, and has 4`,
		"{schedule: '@daily', duration: 1h, timeZone: Local}":             `quiet[0].timeZone: "Local" is not the name of a time zone, such as Europe/Riga`,
		"{from: tomorrow, until: 2026-12-24T19:00}":                       `quiet[0].from: "tomorrow" is not a time such as 2026-12-24T18:00 or 2026-12-24T16:00:00Z`,
		"{from: 2026-12-24T18:00, until: 2026-12-24T15:00Z}":              `quiet[0].until: "2026-12-24T15:00Z" is not a time such as 2026-12-24T18:00 or 2026-12-24T16:00:00Z`,
		"{from: 2026-12-24T18:00, until: 2026-12-24T17:00}":               "quiet[0].until: the window must end after it begins",
		"{weekdays: sat}": "quiet[0].weekdays: unknown field; known: duration, from, schedule, timeZone, until",
		"22:00-07:00":     "quiet[0]: must be a mapping, not a string",
	} {
		_, err := config.Parse("f", []byte(head+"notify: {receivers: [{name: a, webhook: {url: 'http://h'}, quiet: ["+text+"]}]}\n"))
		if err == nil || !strings.Contains(err.Error(), "f:3: notify.receivers[0]."+want) {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
	many := strings.TrimSuffix(strings.Repeat("{schedule: '@daily', duration: 1h}, ", 21), ", ")
	_, err := config.Parse("f", []byte(head+"notify: {receivers: [{name: a, webhook: {url: 'http://h'}, quiet: ["+many+"]}]}\n"))
	if err == nil || !strings.Contains(err.Error(), "quiet[20]: must be one of at most 20 items") {
		t.Error(err)
	}
}
