package history_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/history"
	"github.com/daeace23/prober/agent/history/record"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// traced returns a tick with phases.
func traced(took time.Duration, phases ...probe.TraceEvent) *worker.Tick {
	t := tick(probe.Success, took)
	t.Trace = &worker.Trace{Events: phases}
	return t
}

func phase(name string, took time.Duration) probe.TraceEvent {
	return probe.TraceEvent{Type: probe.TracePhase, Name: name, Duration: took}
}

func (r *rig) durations(pod string, since time.Duration) api.ProbeDurations {
	r.t.Helper()
	r.settle()
	d, ok, err := r.store.Durations(r.t.Context(), key(pod), time.Now().Add(-since), time.Now())
	if err != nil || !ok {
		r.t.Fatal(ok, err)
	}
	return d
}

func near(got float64, want time.Duration) bool {
	return math.Abs(got-want.Seconds()) <= 0.126*want.Seconds()
}

// checkHundreds checks percentiles of ticks that took 10 ms, one in five 100 ms, and one in fifty 1 s.
func checkHundreds(t *testing.T, what string, p api.DurationPercentiles) {
	t.Helper()
	if !near(p.P50Seconds, 10*time.Millisecond) || !near(p.P90Seconds, 100*time.Millisecond) || !near(p.P99Seconds, time.Second) {
		t.Errorf("%s: %+v", what, p)
	}
}

// hundreds makes ticks every 10 s, with a phase of half their duration.
func hundreds(o worker.ProbeObserver, hours int) {
	for i := range hours * 360 {
		took := 10 * time.Millisecond
		switch {
		case i%50 == 0:
			took = time.Second
		case i%5 == 0:
			took = 100 * time.Millisecond
		}
		o.Tick(traced(took, phase("connect", took/2), phase("body", time.Millisecond), phase("body", time.Millisecond)))
		time.Sleep(10 * time.Second)
	}
}

func TestPercentilesOfFoldedAndOpenWindows(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(20*time.Minute + time.Second)
		r := run(t, history.Config{StateDir: dir})
		o := r.store.Observe(info("web", "1"))
		r.store.Observe(info("other", "2")).Tick(tick(probe.Failure, time.Hour))
		hundreds(o, 1)
		checkPercentiles(t, r, 360) // of the hour that was stored, and of the present one
		hundreds(o, 9)
		checkPercentiles(t, r, 3600)
		r.stop()
		r = run(t, history.Config{StateDir: dir})
		hundreds(r.store.Observe(info("web", "3")), 1)
		checkPercentiles(t, r, 3960)
	})
}

func checkPercentiles(t *testing.T, r *rig, ticks uint64) {
	t.Helper()
	d := r.durations("web", 24*time.Hour)
	if d.Ticks != ticks || d.StepSeconds != 3600 || len(d.Points) < int(ticks/360) || len(d.Points) > int(ticks/360)+1 {
		t.Fatalf("%d ticks, %d points: %+v", d.Ticks, len(d.Points), d.Points)
	}
	checkHundreds(t, "whole", d.DurationPercentiles)
	sum := uint64(0)
	for i, p := range d.Points {
		if sum += p.Ticks; p.Ticks > 100 {
			checkHundreds(t, p.Time.String(), p.DurationPercentiles)
		}
		if !p.Time.Equal(p.Time.Truncate(time.Hour)) || i > 0 && p.Time.Sub(d.Points[i-1].Time) != time.Hour {
			t.Errorf("a point at %v", p.Time)
		}
	}
	if len(d.Phases) != 2 || d.Phases[0].Name != "connect" || d.Phases[1].Name != "body" || sum != ticks {
		t.Fatalf("%d ticks in points; phases %+v", sum, d.Phases)
	}
	if p := d.Phases[0]; !near(p.P50Seconds, 5*time.Millisecond) || !near(p.P99Seconds, 500*time.Millisecond) || len(p.Points) != len(d.Points) {
		t.Errorf("%+v", p)
	}
	if p := d.Phases[1]; !near(p.P50Seconds, 2*time.Millisecond) || !near(p.P99Seconds, 2*time.Millisecond) || p.Ticks != ticks {
		t.Errorf("%+v", p) // the sum of its two parts
	}
}

func TestPercentilesOfOtherProbesAndTimes(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, history.Config{StateDir: dir})
		hundreds(r.store.Observe(info("web", "1")), 30)
		if _, ok, err := r.store.Durations(t.Context(), key("nosuch"), time.Now().Add(-time.Hour), time.Now()); ok || err != nil {
			t.Error(ok, err)
		}
		until := time.Now().Add(-10 * time.Hour)
		d, _, err := r.store.Durations(t.Context(), key("web"), until.Add(-2*time.Hour), until)
		if err != nil || len(d.Points) != 3 || !d.Since.Equal(until.Add(-2*time.Hour).Truncate(time.Hour)) || d.Points[0].Time.Before(d.Since) {
			t.Error(err, d.Since, d.Points)
		}
	})
}

// Only the last attempt of a tick counts, and of its events only phases and calls.
func TestPhasesOfLastAttempt(t *testing.T) {
	s := history.New(history.Config{StateDir: t.TempDir()})
	s.Observe(info("web", "1")).Tick(traced(time.Second, phase("connect", time.Second), phase("tls", time.Second),
		probe.TraceEvent{Type: probe.TraceRetry, Name: "2"}, phase("connect", time.Millisecond), phase("", time.Second),
		probe.TraceEvent{Type: probe.TraceCall, Name: "http", Duration: time.Millisecond},
		probe.TraceEvent{Type: probe.TraceWait, Name: "read", Duration: time.Second}, probe.TraceEvent{Type: probe.TraceLog, Name: "info"}))
	d, ok, err := s.Durations(t.Context(), key("web"), time.Now().Add(-time.Hour), time.Now())
	var names []string
	for _, p := range d.Phases {
		if names = append(names, p.Name); !near(p.P50Seconds, time.Millisecond) || p.Ticks != 1 {
			t.Errorf("%+v", p)
		}
	}
	if got := strings.Join(names, " "); err != nil || !ok || got != "connect http" {
		t.Error(err, ok, got)
	}
}

// A handler that names its phases differently each time gets no more memory than others.
func TestNamesOfPhasesAreBounded(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, history.Config{StateDir: dir})
		o := r.store.Observe(info("web", "1"))
		for i := range 5 * 360 {
			var all []probe.TraceEvent
			for k := range 60 {
				all = append(all, phase(fmt.Sprintf("%d-%d-%s", i, k, strings.Repeat("ü", 1000)), time.Second))
			}
			o.Tick(traced(time.Second, all...))
			time.Sleep(10 * time.Second)
		}
		d := r.durations("web", 24*time.Hour)
		if d.Ticks != 5*360 || len(d.Phases) > 16 || len(d.Phases) < history.MaxPhases {
			t.Errorf("%d ticks, %d phases", d.Ticks, len(d.Phases))
		}
		for _, p := range d.Phases {
			if len(p.Name) > 32 || !strings.HasSuffix(p.Name, "ü") {
				t.Errorf("a name of %d bytes: %q", len(p.Name), p.Name)
			}
		}
	})
}

func TestPercentileStepsBoundPoints(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, history.Config{StateDir: dir})
		o := r.store.Observe(info("web", "1"))
		time.Sleep(10 * time.Minute)
		for range 9 * 24 {
			o.Tick(tick(probe.Success, time.Millisecond))
			time.Sleep(time.Hour)
		}
		for days, want := range map[int]int{1: 1, 7: 1, 9: 2} {
			d := r.durations("web", time.Duration(days)*24*time.Hour)
			if d.StepSeconds != want*3600 || len(d.Points) > history.MaxDurationPoints || len(d.Points) < days*24/want {
				t.Errorf("%d days have %d points of %d s", days, len(d.Points), d.StepSeconds)
			}
		}
	})
}

// Percentiles of many different hours are estimated.
func TestPercentilesOfDifferentHours(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		r := run(t, history.Config{StateDir: dir})
		o := r.store.Observe(info("web", "1"))
		var all []float64
		for i := range 48 * 360 {
			base := 1 + math.Sin(float64(i)/360/24*2*math.Pi) // hours of a day differ, and one has timeouts
			took := time.Duration(math.Exp(0.35*random.NormFloat64()+base) * float64(time.Millisecond))
			if i/360 == 20 && random.IntN(6) == 0 {
				took = time.Second
			}
			all = append(all, took.Seconds())
			o.Tick(tick(probe.Success, took))
			time.Sleep(10 * time.Second)
		}
		slices.Sort(all)
		d := r.durations("web", 60*time.Hour)
		for share, got := range map[float64]float64{0.5: d.P50Seconds, 0.9: d.P90Seconds, 0.99: d.P99Seconds} {
			if want := all[int(share*float64(len(all)))]; math.Abs(got-want) > 0.2*want {
				t.Errorf("the percentile %v is %v, want %v", share, got, want)
			}
		}
	})
}

// A database of a version that stored no hours is read, and continued.
func TestDatabaseWithoutHours(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, history.Config{StateDir: dir})
		hundreds(r.store.Observe(info("web", "1")), 10)
		r.stop()
		removeHours(t, filepath.Join(dir, "history", "history.db"))
		r = run(t, history.Config{StateDir: dir})
		if got := r.durations("web", 24*time.Hour); got.Ticks != 0 || len(got.Points)+len(got.Phases) != 0 {
			t.Errorf("%+v", got)
		}
		hundreds(r.store.Observe(info("web", "1")), 10)
		checkPercentiles(t, r, 3600)
		h, _, err := r.store.Probe(t.Context(), key("web"), time.Now().Add(-24*time.Hour), time.Now())
		if err != nil || len(h.Points) < 20*60 || len(r.store.Trouble()) != 0 {
			t.Error(err, len(h.Points), r.store.Trouble())
		}
	})
}

// removeHours makes a database as a version without hours writes it.
func removeHours(t *testing.T, path string) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var open record.Opener
	var seal record.Sealer
	bucket, folded := []byte("points"), 0
	err = db.Update(func(tx *bbolt.Tx) error {
		err := tx.Bucket(bucket).ForEach(func(k, v []byte) error {
			payload, err := open.Open(bucket, k, v)
			if err != nil {
				return err
			}
			points, _, err := record.DecodePoints(payload)
			if err != nil {
				return err
			}
			folded++
			return tx.Bucket(bucket).Put(k, seal.Seal(bucket, k, record.AppendPoints(nil, points, nil)))
		})
		if err != nil {
			return err
		}
		return tx.DeleteBucket([]byte("hours"))
	})
	if err != nil || folded == 0 {
		t.Fatal(err, folded)
	}
}

// A probe that ticks fast has more ticks in an hour than a count can hold, in buckets that come in any order.
func TestPercentilesOfManyTicks(t *testing.T) {
	s := history.New(history.Config{StateDir: t.TempDir()})
	o := s.Observe(info("web", "1"))
	for i := range 400_000 {
		took := 10 * time.Millisecond
		switch {
		case i%100 < 3:
			took = time.Second
		case i%100 < 30:
			took = time.Millisecond
		}
		o.Tick(tick(probe.Success, took))
	}
	d, _, err := s.Durations(t.Context(), key("web"), time.Now().Add(-time.Hour), time.Now())
	if err != nil || math.Abs(float64(d.Ticks)-400_000) > 100 || !near(d.P50Seconds, 10*time.Millisecond) || !near(d.P90Seconds, 10*time.Millisecond) || !near(d.P99Seconds, time.Second) {
		t.Errorf("%v %+v", err, d.DurationPercentiles)
	}
}
