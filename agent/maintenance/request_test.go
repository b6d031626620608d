package maintenance_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/agent/maintenance"
	"github.com/daeace23/prober/config"
)

func TestRead(t *testing.T) {
	now := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	for _, c := range []struct{ body, want, err string }{
		{body: `{"for":"2h"}`, want: "08:00 to 10:00 exclude"},
		{body: `{"name":"move","for":"2h","from":"2026-11-30T09:00:00+01:00","reason":" new disks ","uptime":"count"}`, want: "08:00 to 10:00 count new disks"},
		{body: `{"until":"2026-11-30T09:00:00Z","match":[{"namespace":"shop"},{"labels":"a=b,c!=d"}]}`, want: "08:00 to 09:00 exclude {shop     } {     a=b,c!=d}"},
		{body: ``, err: "exactly one of for and until is required"},
		{body: `{"for":"2h","until":"2026-11-30T09:00:00Z"}`, err: "exactly one of for and until is required"},
		{body: `{"until":"2026-11-30T08:00:00Z"}`, err: "the window must end after it begins"},
		{body: `{"for":"2"}`, err: `for "2" must be a duration such as 10m`},
		{body: `{"until":"2028-11-30T08:00:00Z"}`, err: "the window must begin within 8784h0m0s and last at most as long"},
		{body: `{"for":"1h","from":"2028-11-30T08:00:00Z"}`, err: "the window must begin within 8784h0m0s and last at most as long"},
		{body: `{"for":"1h","name":"A"}`, err: `name "A" must be at most 63 lower-case letters, digits and dashes`},
		{body: `{"for":"1h","uptime":"skip"}`, err: `uptime "skip" must be exclude or count`},
		{body: `{"for":"1h","reason":"a\nb"}`, err: "reason must be one line"},
		{body: `{"for":"1h","match":[{"kind":"x"}]}`, err: "maintenance:1: match[0].kind: "},
		{body: `{"for":"1h","match":[{}]}`, err: "match[0]: must have at least one field"},
		{body: `{"for":"1h","receivers":["pager","ops","pager"]}`, want: "08:00 to 09:00 count ops pager"},
		{body: `{"for":"1h","receivers":["ops","page"]}`, err: `unknown receiver "page"; known: ops, pager`},
		{body: `{"for":"1h","receivers":["ops"],"uptime":"exclude"}`, err: "uptime cannot be set with receivers: "},
		{body: `{"fro":"1h"}`, err: `unknown field "fro"`},
	} {
		w, err := maintenance.Read(strings.NewReader(c.body), now, func() []string { return []string{"ops", "pager"} })
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: error %v, want %q", c.body, err, c.err)
		}
		if err != nil {
			continue
		}
		from, until := w.Window.Next(time.Time{})
		got := fmt.Sprintf("%s to %s %s %s", from.UTC().Format("15:04"), until.UTC().Format("15:04"), w.Uptime, w.Reason)
		for _, m := range maintenance.APIMatch(w.Match) {
			got = strings.TrimSpace(got) + " " + fmt.Sprint(m)
		}
		got = strings.TrimSpace(got + strings.Join(w.Receivers, " "))
		if strings.TrimSpace(got) != c.want || w.Name != "move" && !strings.HasPrefix(w.Name, "m-") {
			t.Errorf("%s: got %q %q, want %q", c.body, w.Name, got, c.want)
		}
	}
}

// byClient returns a window of a client.
func byClient(t *testing.T, name string, from, until time.Duration, patterns ...string) maintenance.Window {
	t.Helper()
	return maintenance.Window{Maintenance: once(t, name, from, until, patterns...), By: "root"}
}

func TestClientsStartAndEndWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.add("a")
		start := func(name string, from, until time.Duration, want error) {
			t.Helper()
			if _, _, err := r.Start(byClient(t, name, from, until, "a")); !errors.Is(err, want) {
				t.Errorf("start of %s: %v, want %v", name, err, want)
			}
		}
		r.Set([]config.Maintenance{once(t, "file", time.Hour, 2*time.Hour, "a")})
		start("now", 0, time.Hour, nil)
		r.expect("started", "began now, a:now")
		start("now", 0, time.Hour, maintenance.ErrName)
		start("file", 0, time.Hour, maintenance.ErrName)
		start("over", -2*time.Hour, -time.Hour, maintenance.ErrOver)
		start("later", 30*time.Minute, 3*time.Hour, nil)
		for name, want := range map[string]error{"file": maintenance.ErrConfigured, "nothing": maintenance.ErrMissing, "now": nil} {
			if err := r.End(name); !errors.Is(err, want) {
				t.Errorf("end of %s: %v, want %v", name, err, want)
			}
		}
		r.expect("ended", "ended now, a:")
		r.Set(nil)
		time.Sleep(3 * time.Hour)
		r.expect("after a reload without windows", "began later, a:later, ended later, a:")
		if all, _ := r.Windows(); len(all) > 0 {
			t.Errorf("windows that are over: %+v", all)
		}
		for i := range 1000 {
			start(fmt.Sprint("w", i), time.Hour, 2*time.Hour, nil)
		}
		start("more", time.Hour, 2*time.Hour, maintenance.ErrMany)
	})
}

func TestWindowsOfClientsSurviveRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "maintenance.json")
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t)
		first.Open(path)
		first.Set([]config.Maintenance{once(t, "file", 0, 10*time.Hour)})
		for _, w := range []maintenance.Window{
			byClient(t, "active", 0, 3*time.Hour, "a"), byClient(t, "later", 2*time.Hour, 3*time.Hour, "a"), byClient(t, "over", 0, time.Minute, "a"),
			byClient(t, "ended", 0, 5*time.Hour, "a"),
		} {
			w.Reason, w.Uptime = "disks", config.UptimeCount
			if _, _, err := first.Start(w); err != nil {
				t.Fatal(err)
			}
		}
		if err := first.End("ended"); err != nil {
			t.Fatal(err)
		}
		first.Close()
		time.Sleep(time.Hour)
		second := newRig(t)
		second.Open(path)
		second.add("a", "b")
		second.expect("after a restart", "began active, a:active")
		all, probes := second.Windows()
		for i, w := range all {
			if w.Reason != "disks" || w.Uptime != config.UptimeCount || w.By != "root" || probes[i] != 1 {
				t.Errorf("%+v selects %d", w, probes[i])
			}
		}
		if names := slices.Collect(func(yield func(string) bool) {
			for _, w := range all {
				yield(w.Name)
			}
		}); !slices.Equal(names, []string{"active", "later"}) {
			t.Errorf("windows %q", names)
		}
		time.Sleep(2 * time.Hour)
		second.expect("at the end", "began later, ended active, ended later, a:")
	})
}

func TestUnreadableFileIsLogged(t *testing.T) {
	for name, text := range map[string]string{
		"cannot be read: they have ended": "x", "unknown version 2": `{"version":2}`,
		"has no author": `{"version":1,"windows":[{"name":"w","from":"2026-11-30T08:00:00Z","until":"2099-11-30T08:00:00Z"}]}`,
		"match[0].kind": `{"version":1,"windows":[{"name":"w","by":"root","match":[{"kind":"x"}],"from":"2026-11-30T08:00:00Z","until":"2099-11-30T08:00:00Z"}]}`,
		"must end":      `{"version":1,"windows":[{"name":"w","by":"root"}]}`,
	} {
		path := filepath.Join(t.TempDir(), "maintenance.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		table := maintenance.New(maintenance.Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
		table.Open(path)
		table.Close()
		if all, _ := table.Windows(); len(all) > 0 || !strings.Contains(log.String(), name) {
			t.Errorf("%s: %+v, log %s", text, all, log.String())
		}
	}
}
