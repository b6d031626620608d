package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/config"
)

func TestMaintenance(t *testing.T) {
	got, err := config.Parse("f", []byte(head+`maintenance:
- name: backup
  match: [{pod: "db-*", labels: "tier=data,site!=b"}]
  schedule: "0 3 * * sun"
  duration: 2h
  timeZone: Europe/Riga
  reason: weekly backup
- name: move
  from: 2026-12-24T18:00
  until: 2026-12-25T06:00
  timeZone: Europe/Riga
  uptime: count
- {name: all, from: "2026-12-24T18:00:00+01:00", until: "2026-12-24T18:30:00Z"}
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Maintenance) != 3 {
		t.Fatalf("%+v", got.Maintenance)
	}
	for i, want := range []struct{ name, reason, uptime, begin, end string }{
		{"backup", "weekly backup", "exclude", "2026-12-06T01:00:00Z", "2026-12-06T03:00:00Z"},
		{"move", "", "count", "2026-12-24T16:00:00Z", "2026-12-25T04:00:00Z"},
		{"all", "", "exclude", "2026-12-24T17:00:00Z", "2026-12-24T18:30:00Z"},
	} {
		m := &got.Maintenance[i]
		begin, end := m.Window.Next(time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC))
		if m.Name != want.name || m.Reason != want.reason || string(m.Uptime) != want.uptime || begin.UTC().Format(time.RFC3339) != want.begin || end.UTC().Format(time.RFC3339) != want.end {
			t.Errorf("got %+v from %v to %v, want %+v", m, begin, end, want)
		}
	}
	facts := &config.ProbeFacts{Pod: "db-1", Labels: map[string]string{"tier": "data"}}
	if backup := got.Maintenance[0].Match; !config.MatchesAny(backup, facts) || config.MatchesAny(backup, &config.ProbeFacts{Pod: "db-1"}) {
		t.Errorf("match: %+v", backup)
	}
}

func TestMaintenanceErrors(t *testing.T) {
	const times = "from: 2026-12-24T18:00, until: 2026-12-24T19:00"
	var many strings.Builder
	for i := range 1001 {
		fmt.Fprintf(&many, "{name: a%d, %s}, ", i, times)
	}
	for text, want := range map[string]string{
		"[{" + times + "}]":                                     "maintenance[0].name: the field is required",
		"[{name: A b, " + times + "}]":                          `maintenance[0].name: "A b" is not a name: must be at most 63 lower-case letters, digits and dashes`,
		"[{name: a, " + times + "}, {name: a, " + times + "}]":  `maintenance[1].name: "a" is set twice, first on line 3`,
		"[{name: a, match: [{}], " + times + "}]":               "maintenance[0].match[0]: must have at least one field; without match all probes are selected",
		"[{name: a, match: [{labels: 'a in'}], " + times + "}]": "maintenance[0].match[0].labels: ",
		"[{name: a}]": "maintenance[0]: must have schedule and duration, or from and until",
		"[{name: a, schedule: '0 3 * * *', " + times + "}]":      "maintenance[0]: must have schedule and duration, or from and until",
		"[{name: a, schedule: '0 3 * *', duration: 1h}]":         "maintenance[0].schedule: cron schedule",
		"[{name: a, schedule: '0 3 * * *', duration: 24h}]":      "maintenance[0].duration: the window never ends",
		"[{name: a, until: 2026-12-24T18:00, from: 2026-12-25}]": `maintenance[0].from: "2026-12-25" is not a time`,
		"[{name: a, reason: \"x\\ny\", " + times + "}]":          "maintenance[0].reason: must be one line of at most 256 bytes",
		"[{name: a, uptime: skip, " + times + "}]":               `maintenance[0].uptime: unknown value "skip"; known: count, exclude`,
		"[" + many.String() + "]":                                "maintenance: must have at most 1000 items",
	} {
		_, err := config.Parse("f", []byte(head+"maintenance: "+text+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: error %v, want %q", text, err, want)
		}
	}
}

func TestParseMatch(t *testing.T) {
	all, err := config.ParseMatch("request", []byte(`[{"namespace":"shop"},{"pod":"db-*","labels":"a=b"}]`))
	if err != nil || len(all) != 2 || all[0].Namespace != "shop" || all[1].Labels.String() != "a=b" {
		t.Errorf("got %+v, %v", all, err)
	}
	for text, want := range map[string]string{
		`[{"kind":"read"}]`: `request:1: match[0].kind: `, `[{"port":"1"}]`: `match[0].port: unknown field`, `[{"pod":"["}]`: `match[0].pod: `, `{}`: "match: must be a list",
	} {
		if _, err := config.ParseMatch("request", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}
