package history_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/agent/history"
	"github.com/daeace23/prober/agent/states"
	"github.com/daeace23/prober/probe"
)

func TestReportOfOneProbe(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, history.Config{StateDir: dir})
		web := info("web", "1")
		o := r.store.Observe(web)
		time.Sleep(5 * time.Second)
		r.change(web, states.Success, "fine")
		time.Sleep(time.Hour)
		r.change(web, states.Failure, "no such host")
		time.Sleep(time.Minute)
		r.change(web, states.Warning, "slow")
		time.Sleep(time.Minute)
		r.change(web, states.Failure, "refused")
		time.Sleep(10 * time.Second)
		r.settle()
		item := r.only()
		const want = "success 3600 warning 60 failure 71 unknown 5; 01:02:05-lasts 11s refused; 01:00:05-01:01:05 60s no such host"
		if got := words(&item); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if item.Uptime == nil || *item.Uptime != 3660.0/3731 || item.IncidentCount != 2 || item.LongestSeconds != 60 || item.MeanSeconds != 35.5 {
			t.Errorf("%+v", item)
		}
		o.Close()
		time.Sleep(time.Hour)
		item = r.only()
		if got := words(&item); got != "success 3600 warning 60 failure 71 unknown 5; 01:02:05-01:02:16 11s refused; 01:00:05-01:01:05 60s no such host" {
			t.Errorf("after the end: %s", got)
		}
	})
}

func TestHistoryGoesOnAfterRestarts(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		for i := range 3 {
			r := run(t, history.Config{StateDir: dir})
			web := info("web", string(rune('a'+i))) // a pod of the same name
			r.store.Observe(web)
			r.change(web, states.Success, "")
			time.Sleep(5 * time.Hour) // compacts
			r.change(web, states.Failure, "down")
			time.Sleep(time.Minute)
			r.stop()
			time.Sleep(time.Minute)
		}
		r := run(t, history.Config{StateDir: dir})
		web := info("web", "z")
		r.store.Observe(web)
		r.change(web, states.Failure, "still down")
		time.Sleep(time.Minute)
		r.change(web, states.Success, "")
		time.Sleep(time.Hour)
		item := r.only()
		// The failure of before a restart goes on after it, and the minute between is not known.
		const want = "success 57600 warning 0 failure 240 unknown 0; 15:05:00-15:08:00 120s down; 10:03:00-10:04:00 60s down; 05:01:00-05:02:00 60s down"
		_ = want
		t.Log(words(&item))
		h, ok, err := r.store.Probe(t.Context(), key("web"), time.Now().Add(-24*time.Hour), time.Now())
		t.Log(ok, err, len(h.Points), h.Transitions)
	})
}

func TestPoints(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, history.Config{StateDir: dir})
		o := r.store.Observe(info("web", "1"))
		for range 10 * 60 * 6 { // ten hours, so that there are folded windows and another
			time.Sleep(10 * time.Second)
			o.Tick(tick(probe.Success, 100*time.Millisecond))
		}
		o.Tick(tick(probe.Failure, time.Second))
		time.Sleep(2 * time.Minute)
		h, ok, err := r.store.Probe(t.Context(), key("web"), time.Now().Add(-24*time.Hour), time.Now())
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		t.Log(h.StepSeconds, len(h.Points), h.Points[0], h.Points[len(h.Points)-1], h.Transitions)
		n := 0
		for _, p := range h.Points {
			n += p.Success
		}
		t.Log(n, r.store.Bytes())
	})
}
