package states_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// told collects changes.
type told struct{ changes []states.Change }

func (r *told) Changed(c *states.Change) { r.changes = append(r.changes, *c) }

// words returns the changes since the last call as "FROM-TO REASON TEXT".
func (r *told) words() []string {
	var all []string
	for _, c := range r.changes {
		to := c.To.String()
		if c.Removed {
			to = "removed"
		}
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s-%s %s %s", c.From, to, c.Reason, c.Text)))
	}
	r.changes = nil
	return all
}

// tick returns a tick that the thresholds counted, as the run-th of threshold.
func tick(result probe.Result, run, threshold int, before, after results.Result) *worker.Tick {
	counted := results.Success
	if result == probe.Failure {
		counted = results.Failure
	}
	return &worker.Tick{
		Handler: "http", Outcome: probe.Outcome{Result: result, Output: result.String()}, Counted: true, Result: counted,
		Run: run, Threshold: threshold, Before: before, After: after, End: time.Unix(int64(run), 0),
	}
}

func TestTrackerStates(t *testing.T) {
	const ok, bad, none = results.Success, results.Failure, results.Unknown
	noVerdict := &worker.Tick{Err: errors.New("plugin crashed"), Before: ok, After: ok}
	for _, c := range []struct {
		name string
		run  func(o worker.ProbeObserver)
		want []string
	}{
		{"a success is known at once", func(o worker.ProbeObserver) {
			o.Tick(tick(probe.Success, 1, 1, bad, ok))
			o.Tick(tick(probe.Success, 2, 1, ok, ok))
		}, []string{"unknown-success  success"}},
		{"an initial result is not known", func(o worker.ProbeObserver) {
			o.Tick(tick(probe.Failure, 1, 3, bad, bad)) // readiness
			o.Tick(tick(probe.Failure, 2, 3, bad, bad))
		}, nil},
		{"failures reach their threshold", func(o worker.ProbeObserver) {
			o.Tick(tick(probe.Success, 1, 1, bad, ok))
			o.Tick(tick(probe.Failure, 1, 2, ok, ok))
			o.Tick(tick(probe.Failure, 2, 2, ok, bad))
			o.Tick(tick(probe.Failure, 3, 2, bad, bad))
		}, []string{"unknown-success  success", "success-failure  failure"}},
		{"a warning is a success that warns", func(o worker.ProbeObserver) {
			o.Tick(tick(probe.Warning, 1, 1, bad, ok))
			o.Tick(tick(probe.Failure, 1, 2, ok, ok))
			o.Tick(tick(probe.Success, 1, 1, ok, ok))
		}, []string{"unknown-warning  warning", "warning-success  success"}},
		{"a success below its threshold ends no failure", func(o worker.ProbeObserver) {
			o.Tick(tick(probe.Failure, 1, 1, bad, bad))
			o.Tick(tick(probe.Success, 1, 2, bad, bad))
			o.Tick(tick(probe.Success, 2, 2, bad, ok))
		}, []string{"unknown-failure  failure", "failure-success  success"}},
		{"a new container ends no failure", func(o worker.ProbeObserver) {
			o.Tick(tick(probe.Failure, 1, 1, ok, bad))
			o.(worker.DecisionObserver).Decided(ok)
			o.Tick(tick(probe.Failure, 1, 3, ok, ok))
			o.Tick(tick(probe.Success, 1, 1, ok, ok))
		}, []string{"unknown-failure  failure", "failure-success  success"}},
		{"a container stops", func(o worker.ProbeObserver) {
			o.Tick(tick(probe.Success, 1, 1, bad, ok))
			o.(worker.DecisionObserver).Decided(bad)
			o.(worker.GateObserver).Gated(worker.NotRunning)
			o.(worker.DecisionObserver).Decided(bad)
			o.(worker.GateObserver).Gated(worker.Open)
			o.Tick(tick(probe.Failure, 1, 3, bad, bad))
		}, []string{"unknown-success  success", "success-failure not_running the container does not run"}},
		{"a container that never was ready stops", func(o worker.ProbeObserver) {
			o.(worker.DecisionObserver).Decided(bad)
			o.(worker.GateObserver).Gated(worker.NotRunning)
			o.Close()
		}, nil},
		{"a pod is deleted", func(o worker.ProbeObserver) {
			o.Tick(tick(probe.Success, 1, 1, bad, ok))
			o.(worker.DecisionObserver).Decided(ok)
			o.(worker.GateObserver).Gated(worker.Terminating)
			o.Close()
		}, []string{"unknown-success  success", "success-removed"}},
		{"no verdict for three ticks", func(o worker.ProbeObserver) {
			o.Tick(tick(probe.Failure, 1, 1, ok, bad))
			for range 4 {
				o.Tick(noVerdict)
			}
			o.Tick(tick(probe.Failure, 2, 1, bad, bad))
			o.Tick(noVerdict)
			o.Tick(noVerdict)
			o.Tick(tick(probe.Failure, 3, 1, bad, bad))
			o.Tick(noVerdict)
		}, []string{"unknown-failure  failure", "failure-unknown internal plugin crashed", "unknown-failure  failure"}},
		{"an error that counts as a failure", func(o worker.ProbeObserver) {
			o.Tick(&worker.Tick{Err: errors.New("denied"), Counted: true, Result: bad, Run: 1, Threshold: 1, Before: none, After: bad})
		}, []string{"unknown-failure internal denied"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got told
			c.run(states.New(&got).Observe(worker.Info{Kind: probe.Readiness}))
			if words := got.words(); !slices.Equal(words, c.want) {
				t.Errorf("got  %q\nwant %q", words, c.want)
			}
		})
	}
}

func TestChangeHasTimesAndHandler(t *testing.T) {
	var got told
	o := states.New(&got).Observe(worker.Info{Subject: results.Subject{Pod: "web"}, Handler: "old"})
	o.Tick(tick(probe.Success, 1, 1, results.Failure, results.Success))
	o.Tick(tick(probe.Failure, 9, 1, results.Success, results.Failure))
	c := got.changes[1]
	if c.Info.Pod != "web" || c.Info.Handler != "http" || !c.Since.Equal(time.Unix(1, 0)) || !c.Time.Equal(time.Unix(9, 0)) {
		t.Errorf("got %+v", c)
	}
}

func TestStoppedTrackerTellsNothing(t *testing.T) {
	var got told
	tracker := states.New(&got)
	o := tracker.Observe(worker.Info{})
	o.Tick(tick(probe.Success, 1, 1, results.Failure, results.Success))
	tracker.Stop()
	o.Tick(tick(probe.Failure, 1, 1, results.Success, results.Failure))
	o.Close()
	if words := got.words(); len(words) != 1 {
		t.Errorf("got %q", words)
	}
}

func TestTextIsCut(t *testing.T) {
	var got told
	bad := tick(probe.Failure, 1, 1, results.Success, results.Failure)
	bad.Outcome.Output = strings.Repeat("ü", states.MaxText)
	states.New(&got).Observe(worker.Info{}).Tick(bad)
	if text := got.changes[0].Text; len(text) > states.MaxText || len(text) < states.MaxText-4 || !utf8.ValidString(text) {
		t.Errorf("%d bytes, valid %v", len(text), utf8.ValidString(text))
	}
}

func TestOfReturnsTheStateOfTheProbe(t *testing.T) {
	tracker := states.New()
	info := worker.Info{Subject: results.Subject{PodUID: "u", Container: "web"}, Kind: probe.Readiness}
	check := func(want states.State, since int64) {
		t.Helper()
		got := tracker.Of("u", "web", probe.Readiness)
		if got.State != want || since != 0 && !got.Since.Equal(time.Unix(since, 0)) || since == 0 && !got.Since.IsZero() {
			t.Errorf("got %v since %v, want %v since %d", got.State, got.Since, want, since)
		}
	}
	check(states.Unknown, 0)
	first := tracker.Observe(info)
	check(states.Unknown, 0)
	first.Tick(tick(probe.Success, 1, 1, results.Failure, results.Success))
	tracker.Observe(info).Close() // the same probe was added again, and refused
	check(states.Success, 1)
	first.Tick(tick(probe.Failure, 5, 1, results.Success, results.Failure))
	check(states.Failure, 5)

	second := tracker.Observe(info) // its spec was replaced
	second.Tick(tick(probe.Success, 7, 1, results.Failure, results.Success))
	first.Close()
	check(states.Success, 7)
	second.Close()
	check(states.Unknown, 0)
}
