package notify_test

import (
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Bubbles begin at midnight, UTC. These quiet hours are from 2:00 to 5:00 in Riga, two hours earlier in UTC.
const quietHours = ", groupWait: 10s, quiet: [{schedule: '10 2 * * *', duration: 3h, timeZone: Europe/Riga}]"

func sleepUntil(w *world, t time.Duration) { time.Sleep(t - time.Since(w.start)) }

// At the end of quiet hours a receiver gets the present failures, and the ends of known ones. It never gets what
// began and ended within them.
func TestQuietHours(t *testing.T) {
	bubble(t, quietHours, func(t *testing.T, w *world) {
		w.setState("before", failure)
		w.setState("ends", failure)
		sleepUntil(w, 5*time.Minute)
		w.expect("10s: before failure, ends failure")
		w.setState("short", failure)
		sleepUntil(w, 15*time.Minute)
		w.expect("5m10s: before failure, ends failure, short failure")
		w.setState("ends", ok)
		w.setState("within", failure)
		w.setState("lasts", failure)
		if q := w.Status().Items[0].QuietUntil; q.Sub(w.start) != 3*time.Hour+10*time.Minute {
			t.Errorf("quiet until %s", q)
		}
		sleepUntil(w, time.Hour)
		w.setState("within", ok)
		w.setState("again", failure)
		sleepUntil(w, 2*time.Hour)
		w.setState("again", ok)
		w.setState("again", failure)
		sleepUntil(w, 3*time.Hour+10*time.Minute-time.Second)
		w.expect()
		sleepUntil(w, 4*time.Hour)
		w.expect("3h10m0s: again failure, before failure, ends resolved, lasts failure, short failure")
		if q := w.Status().Items[0].QuietUntil; !q.IsZero() {
			t.Errorf("quiet until %s", q)
		}
	})
}

// The end of an incident that the receiver knows is sent after quiet hours that are longer than the retention.
func TestQuietHoursKeepKnownIncidents(t *testing.T) {
	bubble(t, quietHours+", retention: 1m", func(_ *testing.T, w *world) {
		w.setState("a", failure)
		sleepUntil(w, time.Hour)
		w.expect("10s: a failure")
		w.setState("a", ok)
		sleepUntil(w, 4*time.Hour)
		w.expect("3h10m0s: a resolved")
	})
}

// So is one whose quiet hours a reload ends, or of which a restart sees the end.
func TestQuietHoursKeepKnownIncidentsOverReloadAndRestart(t *testing.T) {
	for name, c := range map[string]struct {
		next func(w *world)
		want string
	}{
		"reload": {func(w *world) {
			sleepUntil(w, 2*time.Hour)
			w.conf.Receivers = slices.Clone(w.conf.Receivers)
			w.conf.Receivers[0].Quiet = nil
			w.Set("prober.yaml", w.conf)
		}, "2h0m0s: a resolved"},
		"restart": {func(w *world) {
			sleepUntil(w, 3*time.Hour+5*time.Minute)
			w.stop()
			sleepUntil(w, 3*time.Hour+12*time.Minute)
			w.run()
		}, "3h12m0s: a resolved"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, quietHours+", retention: 5m")
				w.stop()
				w.cfg.StateFile = filepath.Join(t.TempDir(), "notifications.json")
				w.run()
				w.setState("a", failure)
				sleepUntil(w, time.Hour)
				w.expect("10s: a failure")
				w.setState("a", ok)
				c.next(w)
				sleepUntil(w, 4*time.Hour)
				w.expect(c.want)
			})
		})
	}
}

// Repeats wait for the end of quiet hours too, and a test message does not.
func TestQuietHoursAndRepeats(t *testing.T) {
	bubble(t, quietHours+", repeatInterval: 1h", func(t *testing.T, w *world) {
		w.setState("a", failure)
		sleepUntil(w, 3*time.Hour)
		w.expect("10s: a failure")
		if r, err := w.Test(t.Context(), "ops"); err != nil || !r.Delivered {
			t.Errorf("%+v, %v", r, err)
		}
		w.expect("3h0m0s: ")
		sleepUntil(w, 5*time.Hour)
		w.expect("3h10m0s: a failure again", "4h10m0s: a failure again")
	})
}

// A restart or a reload within quiet hours sends nothing, and removed quiet hours end at once.
func TestQuietHoursOverRestartAndReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, quietHours)
		w.stop()
		w.cfg.StateFile = filepath.Join(t.TempDir(), "notifications.json")
		w.run()
		sleepUntil(w, time.Hour)
		w.setState("a", failure)
		sleepUntil(w, time.Hour+time.Minute)
		w.stop()
		w.run()
		w.setState("a", failure)
		sleepUntil(w, 2*time.Hour)
		w.expect()
		w.conf.Receivers = slices.Clone(w.conf.Receivers)
		w.conf.Receivers[0].Quiet = nil
		w.Set("prober.yaml", w.conf)
		time.Sleep(time.Minute)
		w.expect("2h0m0s: a failure")
	})
}

// A fallback gets what no other receiver selects, whatever the order, and follows changes of the others.
func TestFallback(t *testing.T) {
	bubble(t, "", func(t *testing.T, w *world) {
		set := func(receivers string) {
			w.conf = parse(t, "notify: {receivers: ["+receivers+"]}")
			w.Set("prober.yaml", w.conf)
		}
		const hook = "groupWait: 0s, groupInterval: 1s, webhook: {url: 'http://ops.example/hook'}"
		const fallback = "{name: rest, fallback: true, " + hook + "}"
		const onCall = "{name: on-call, for: 1h, " + hook + "}" // selects all, so it is nobody's team
		team := func(name, match string) string { return "{name: " + name + ", match: [" + match + "], " + hook + "}" }
		got := func() (all []string) {
			time.Sleep(time.Minute)
			w.mu.Lock()
			for i := range w.letters {
				all = append(all, w.letters[i].Receiver+": "+w.letters[i].summary())
			}
			w.mu.Unlock()
			w.takeLetters()
			slices.Sort(all)
			return all
		}
		expect := func(want ...string) {
			t.Helper()
			if got := got(); !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		}
		set(fallback + ", " + team("shop", "{labels: team=shop}") + ", " + team("db", "{pod: 'db-*'}") + ", " + onCall)
		w.label("a", "team=shop")
		w.label("db-1", "team=shop")
		for _, pod := range []string{"a", "b", "db-1"} {
			w.setState(pod, failure)
		}
		expect("db: db-1 failure", "rest: b failure", "shop: a failure, db-1 failure")
		w.label("b", "team=shop")
		expect("rest: b resolved", "shop: a failure, b failure, db-1 failure")
		set(fallback + ", " + team("db", "{pod: 'db-*'}"))
		expect("rest: a failure, b failure")
		set("{name: rest, fallback: true, match: [{pod: a}], " + hook + "}, " + team("db", "{pod: 'db-*'}"))
		expect("rest: a failure, b resolved")
		set(fallback)
		expect("rest: a failure, b failure, db-1 failure")
	})
}
