package history_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/history"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
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

// The time of maintenance counts for no state, also in the next window of the database and after lost changes, and
// the transitions of that time are kept.
func TestSparedTimeCountsForNoState(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, history.Config{StateDir: dir})
		web := info("web", "1")
		r.store.Observe(web)
		r.change(web, states.Success, "")
		time.Sleep(time.Hour)
		r.store.Spare(&web, true)
		r.store.Spare(&web, true)
		time.Sleep(time.Hour)
		r.change(web, states.Failure, "the disks move")
		time.Sleep(10 * time.Hour)
		r.store.Spare(&web, false)
		time.Sleep(time.Minute)
		r.settle()
		item := r.only()
		const want = "success 3600 warning 0 failure 61 unknown 0; 12:00:00-lasts 61s the disks move"
		if got := words(&item); got != want || item.Seconds.Maintenance != 11*3600 || *item.Uptime != 3600.0/3661 {
			t.Errorf("got  %s, %v of maintenance\nwant %s", got, item.Seconds.Maintenance, want)
		}
		_, items := r.report(history.Query{Since: time.Now().Add(-2 * time.Hour), Until: time.Now().Add(-time.Hour)})
		if len(items) != 1 || items[0].Seconds.Maintenance != 3600 || items[0].Uptime != nil {
			t.Errorf("within the maintenance: %+v", items)
		}
		if got := r.maintenance(); got != "success failure (maintenance)" {
			t.Errorf("changes: %s", got)
		}
		h, _, err := r.store.Probe(t.Context(), key("web"), time.Now().Add(-24*time.Hour), time.Now())
		var words []string
		for _, x := range h.Transitions {
			words = append(words, x.To)
		}
		if err != nil || !slices.Equal(words, []string{"failure", "success", "unknown"}) {
			t.Errorf("transitions %q, %v", words, err)
		}
	})
}

func TestUndecidedProbeHasTransitionWithReason(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, history.Config{StateDir: dir})
		web := info("web", "1")
		r.store.Observe(web)
		cannot := states.Change{Info: web, Cause: states.Cause{Reason: "denied", Text: "no capability"}}
		for range 2 {
			time.Sleep(5 * time.Second)
			cannot.Time = time.Now()
			r.store.Changed(&cannot)
		}
		r.change(web, states.Failure, "refused")
		time.Sleep(5 * time.Second)
		r.store.Changed(&states.Change{Info: web, From: states.Failure, To: states.Failure, Time: time.Now(), Cause: states.Cause{Reason: "tls", Text: "expired"}})
		r.settle()
		h, _, err := r.store.Probe(t.Context(), key("web"), time.Now().Add(-time.Hour), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, of := range h.Transitions {
			got = append(got, fmt.Sprintf("%s-%s %s %s", of.From, of.To, of.Reason, of.Text))
		}
		want := []string{"unknown-failure dns refused", "unknown-unknown denied no capability", "absent-unknown  "}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

func TestHistoryContinuesAfterRestarts(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		for i := range 3 {
			r := run(t, history.Config{StateDir: dir})
			web := info("web", string(rune('a'+i))) // a new pod of the same name
			r.store.Observe(web)
			r.change(web, states.Success, "")
			time.Sleep(5 * time.Hour) // a window is folded
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
		// A restart of one minute does not end the last failure. After longer ones the first result is a success.
		const want = "success 57600 warning 0 failure 240 unknown 0; 15:04:00-15:07:00 120s down; 10:02:00-10:03:00 60s down; 05:00:00-05:01:00 60s down"
		if got := words(&item); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		h, _, err := r.store.Probe(t.Context(), key("web"), time.Now().Add(-24*time.Hour), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, of := range h.Transitions {
			all = append(all, of.Time.Format(time.TimeOnly)+" "+of.From+"-"+of.To+" "+of.Text)
		}
		last := []string{"15:07:00 failure-success ", "15:06:00 unknown-failure still down", "15:06:00 absent-unknown ", "15:05:00 failure-absent ", "15:04:00 success-failure down"}
		if len(all) != 15 || !slices.Equal(all[:5], last) {
			t.Errorf("%q", all)
		}
	})
}

func TestPointsOfFoldedAndOpenWindows(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, history.Config{StateDir: dir})
		of := info("web", "1")
		o := r.store.Observe(of)
		other := r.store.Observe(info("other", "2"))
		begin := time.Now()
		for i := range 10 * 60 * 6 { // ten hours: two folded windows and an open one
			time.Sleep(10 * time.Second)
			if i/360 == 3 { // an hour without ticks
				continue
			}
			o.Tick(tick(probe.Success, time.Duration(100+i%6)*time.Millisecond))
			other.Tick(tick(probe.Failure, time.Hour))
		}
		o.Tick(tick(probe.Warning, 2*time.Second))
		o.Tick(&worker.Tick{Err: errors.New("no verdict")})
		time.Sleep(2 * time.Minute)
		h, ok, err := r.store.Probe(t.Context(), key("web"), begin, time.Now())
		if err != nil || !ok || h.StepSeconds != 60 || len(h.Points) < 540 || len(h.Points) > 543 {
			t.Fatal(ok, err, h.StepSeconds, len(h.Points))
		}
		success, lastMinute := 0, h.Points[len(h.Points)-1]
		for i, p := range h.Points[:len(h.Points)-1] {
			success += p.Success
			if p.MeanSeconds < 0.1025*0.95 || p.MeanSeconds > 0.1025*1.05 || p.MaxSeconds < 0.1*0.95 || p.MaxSeconds > 0.105*1.05 || p.MaxSeconds < p.MeanSeconds {
				t.Errorf("%+v", p)
			}
			if i > 0 && !p.Time.After(h.Points[i-1].Time) {
				t.Errorf("%v after %v", p.Time, h.Points[i-1].Time)
			}
		}
		if success+lastMinute.Success != 9*360 || lastMinute.Warning != 1 || lastMinute.Unknown != 1 || math.Abs(lastMinute.MaxSeconds-2) > 0.1 {
			t.Errorf("%d, %+v", success, lastMinute)
		}
		h, _, err = r.store.Probe(t.Context(), key("web"), begin.Add(-30*24*time.Hour), time.Now())
		if err != nil || h.StepSeconds != 60 || !h.Since.Equal(begin) { // it begins with the history
			t.Error(err, h.StepSeconds, h.Since)
		}
		h, _, err = r.store.Probe(t.Context(), key("web"), begin.Add(90*time.Minute), begin.Add(150*time.Minute))
		if err != nil || len(h.Points) < 60 || len(h.Points) > 61 {
			t.Error(err, len(h.Points))
		}
	})
}

func TestStepGrowsWithLengthOfHistory(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, history.Config{StateDir: dir})
		o := r.store.Observe(info("web", "1"))
		time.Sleep(time.Second) // ticks off the full minute
		inStep := some(30, 3)
		for range 29 * 24 * 2 * inStep {
			o.Tick(tick(probe.Success, time.Millisecond))
			time.Sleep(30 * time.Minute / time.Duration(inStep))
		}
		h, _, err := r.store.Probe(t.Context(), key("web"), time.Now().Add(-30*24*time.Hour), time.Now())
		if err != nil || h.StepSeconds != 1800 || len(h.Points) < 1390 || len(h.Points) > history.MaxPoints || h.Points[5].Success != inStep {
			t.Error(err, h.StepSeconds, len(h.Points))
		}
	})
}

func TestReplacedPodKeepsSeries(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, history.Config{StateDir: dir})
		old, next := info("web", "old"), info("web", "new")
		o := r.store.Observe(old)
		r.change(old, states.Failure, "")
		time.Sleep(time.Minute)
		r.store.Observe(next) // while the old one is live
		time.Sleep(time.Minute)
		o.Close() // the new one is undecided
		time.Sleep(time.Minute)
		r.change(next, states.Success, "")
		r.change(old, states.Failure, "late")
		time.Sleep(time.Minute)
		item := r.only()
		if got := words(&item); got != "success 60 warning 0 failure 120 unknown 60; 00:00:00-00:02:00 120s " {
			t.Error(got)
		}
	})
}

// If an agent is killed soon after a failure began, the incident is in the report, although nothing was written
// after its begin.
func TestIncidentWithoutLaterEventsIsReported(t *testing.T) {
	dir, killed := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		a := run(t, history.Config{StateDir: dir})
		a.store.Observe(info("web", "1"))
		a.change(info("web", "1"), states.Success, "")
		time.Sleep(5*time.Minute + 31*time.Second)
		a.change(info("web", "1"), states.Failure, "down")
		time.Sleep(24 * time.Second)
		if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		b := run(t, history.Config{StateDir: killed})
		b.store.Observe(info("web", "1"))
		b.change(info("web", "1"), states.Success, "")
		time.Sleep(time.Hour)
		item := b.only()
		const want = "success 3931 warning 0 failure 0 unknown 0; 00:05:31-00:05:31 0s down"
		if got := words(&item); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if item.IncidentCount != 1 || item.Uptime == nil || *item.Uptime >= 1 {
			t.Errorf("%+v", item)
		}
	})
}

// A copy of the folder of a running agent has the history up to the last minute or change, as after a kill.
func TestCopyOfRunningHistory(t *testing.T) {
	dir, backup := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	synctest.Test(t, func(t *testing.T) {
		r := run(t, history.Config{StateDir: dir})
		web := info("web", "1")
		r.store.Observe(web)
		r.change(web, states.Success, "")
		time.Sleep(9*time.Hour + 90*time.Second)
		if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		r.stop()
		time.Sleep(time.Hour)
		r = run(t, history.Config{StateDir: backup})
		item := r.only()
		if got := words(&item); got != "success 32460 warning 0 failure 0 unknown 0" || r.store.Trouble() != nil {
			t.Error(got, r.store.Trouble())
		}
	})
}

func TestBudgetDropsTheOldest(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := run(t, history.Config{StateDir: dir, Budget: 120 << 10, Log: slog.New(slog.NewTextHandler(&log, nil))})
		random := rand.New(rand.NewPCG(1, 2))
		var observers []worker.ProbeObserver
		for i := range 50 {
			observers = append(observers, r.store.Observe(info(fmt.Sprint("web-", i), fmt.Sprint(i))))
		}
		most := int64(0)
		for range 3 * 24 * 60 {
			for _, o := range observers {
				o.Tick(tick(probe.Success, time.Duration(random.IntN(1e9))))
			}
			time.Sleep(time.Minute)
			most = max(most, r.store.Bytes())
		}
		if most > 120<<10*5/4 || most < 90<<10 { // the newest window may exceed it
			t.Errorf("%d bytes", most)
		}
		if n := strings.Count(log.String(), "history does not fit its budget; the oldest is dropped"); n != 1 {
			t.Errorf("told %d times: %s", n, log.String())
		}
		page, items := r.report(history.Query{})
		if age := time.Since(page.Since); age > 60*time.Hour || age < 4*time.Hour || len(items) != 50 || !page.Since.Equal(r.store.Oldest()) {
			t.Errorf("%v, %d items", age, len(items))
		}
	})
}

func TestRetention(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, history.Config{StateDir: dir, Retention: 48 * time.Hour})
		gone, web := info("gone", "1"), info("web", "2")
		o := r.store.Observe(gone)
		r.store.Observe(web)
		r.change(gone, states.Success, "")
		r.change(web, states.Failure, "")
		time.Sleep(time.Hour)
		o.Close()
		time.Sleep(99 * time.Hour)
		item := r.only() // the other series is deleted, and the first state of this one is dropped
		if item.Pod != "web" || item.Seconds.Failure < 48*3600 || item.Seconds.Failure > 53*3600 {
			t.Errorf("%+v", item)
		}
	})
}

// More changes arrive at once than the queue holds. The state of each probe is right afterwards.
func TestOverflowingQueueKeepsFinalStates(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, history.Config{StateDir: dir})
		const probes = history.MaxQueue/4 + 1
		for round := range 5 { // without time for the writer
			for i := range probes {
				of := info(fmt.Sprint("web-", i), fmt.Sprint(i))
				if round == 0 {
					r.store.Observe(of)
				}
				r.change(of, states.State(1+(i+round)%3), "")
			}
		}
		spared := info("web-0", "0")
		r.store.Spare(&spared, true)
		r.settle()
		time.Sleep(time.Hour)
		_, items := r.report(history.Query{})
		items = slices.DeleteFunc(items, func(i api.ReportItem) bool { return i.Seconds.Maintenance > 3599 })
		if len(items) != probes-1 || r.store.Dropped() == 0 {
			t.Fatalf("%d items, %d dropped", len(items), r.store.Dropped())
		}
		for _, item := range items {
			var i int
			_, _ = fmt.Sscanf(item.Pod, "web-%d", &i)
			if of := []float64{item.Seconds.Success, item.Seconds.Warning, item.Seconds.Failure}; of[(i+4)%3] < 3600 {
				t.Fatalf("%s: %+v", item.Pod, item.Seconds)
			}
		}
	})
}

func TestTicksAllocateNothing(t *testing.T) {
	s := history.New(history.Config{StateDir: t.TempDir()})
	o := s.Observe(info("web", "1"))
	k := tick(probe.Success, time.Millisecond)
	if n := testing.AllocsPerRun(1000, func() { o.Tick(k) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
