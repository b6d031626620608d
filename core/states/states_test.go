package states_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// told is a reader that records changes.
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

// tick returns a counted tick. run is the length of its run, and threshold the threshold for its result.
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
			o.Tick(tick(probe.Failure, 1, 3, ok, ok))
			o.Tick(tick(probe.Success, 1, 1, ok, ok))
		}, []string{"unknown-failure  failure", "failure-success  success"}},
		{"a container stops", func(o worker.ProbeObserver) {
			o.Tick(tick(probe.Success, 1, 1, bad, ok))
			o.(worker.GateObserver).Gated(worker.NotRunning)
			o.(worker.GateObserver).Gated(worker.Open)
			o.Tick(tick(probe.Failure, 1, 3, bad, bad))
		}, []string{"unknown-success  success", "success-failure not_running the container does not run"}},
		{"a container that never was ready stops", func(o worker.ProbeObserver) {
			o.(worker.GateObserver).Gated(worker.NotRunning)
			o.Close()
		}, nil},
		{"a pod is deleted", func(o worker.ProbeObserver) {
			o.Tick(tick(probe.Success, 1, 1, bad, ok))
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
		{"no verdict from the start", func(o worker.ProbeObserver) {
			for range 5 {
				o.Tick(noVerdict)
			}
			o.Tick(tick(probe.Failure, 1, 9, bad, bad)) // decides nothing
			for range 3 {
				o.Tick(noVerdict)
			}
			o.Close()
		}, []string{"unknown-unknown internal plugin crashed", "unknown-removed"}},
		{"a handler that panics", func(o worker.ProbeObserver) {
			o.Tick(tick(probe.Success, 1, 1, bad, ok))
			o.Skipped(worker.SkipNoSlot, 9)
			for range 3 {
				o.Skipped(worker.SkipPanic, 1)
			}
		}, []string{"unknown-success  success", "success-unknown internal the probe panicked"}},
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

// An initial state is shown before the first decision, which readers are notified of even if it is the same.
func TestInitialState(t *testing.T) {
	const ok, bad = results.Success, results.Failure
	for name, c := range map[string]struct {
		initial probe.Result
		before  states.State
		run     func(o worker.ProbeObserver)
		want    []string
	}{
		"success that is confirmed": {initial: probe.Success, before: states.Success, run: func(o worker.ProbeObserver) {
			o.Tick(tick(probe.Success, 1, 1, ok, ok))
		}, want: []string{"unknown-success  success"}},
		"success, failures below their threshold": {initial: probe.Success, before: states.Success, run: func(o worker.ProbeObserver) {
			o.Tick(tick(probe.Failure, 1, 3, ok, ok))
		}},
		"success that is refuted": {initial: probe.Success, before: states.Success, run: func(o worker.ProbeObserver) {
			o.Tick(tick(probe.Failure, 3, 3, ok, bad))
		}, want: []string{"unknown-failure  failure"}},
		"failure that is confirmed": {initial: probe.Failure, before: states.Failure, run: func(o worker.ProbeObserver) {
			o.Tick(tick(probe.Failure, 3, 3, bad, bad))
		}, want: []string{"unknown-failure  failure"}},
		"removed before a decision": {initial: probe.Failure, before: states.Failure, run: worker.ProbeObserver.Close},
	} {
		t.Run(name, func(t *testing.T) {
			var got told
			tracker := states.New(&got)
			info := worker.Info{Subject: results.Subject{PodUID: "1", Container: "web"}, Kind: probe.Readiness, Initial: c.initial}
			o := tracker.Observe(info)
			twin := tracker.Observe(info) // of a worker that is not started
			twin.Close()
			if s := tracker.Of("1", "web", probe.Readiness); s.State != c.before {
				t.Errorf("before a tick: %v", s.State)
			}
			c.run(o)
			if words := got.words(); !slices.Equal(words, c.want) {
				t.Errorf("got  %q\nwant %q", words, c.want)
			}
		})
	}
}

// A forced state hides the state of the attempts, which goes on from where it was.
func TestForcedState(t *testing.T) {
	const ok, bad = results.Success, results.Failure
	var got told
	tracker := states.New(&got)
	o := tracker.Observe(worker.Info{Subject: results.Subject{PodUID: "1", Container: "web"}, Kind: probe.Readiness}).(worker.GateObserver)
	want := func(when string, state states.State, forced worker.Gate, cause string, changes ...string) {
		t.Helper()
		if s := tracker.Of("1", "web", probe.Readiness); s.State != state || s.Forced != forced || s.Text != cause {
			t.Errorf("%s: %+v", when, s)
		}
		for i, c := range got.changes {
			if forced := i < len(changes) && strings.HasSuffix(changes[i], "*"); c.Forced != forced {
				t.Errorf("%s: change %d is forced: %v", when, i, c.Forced)
			}
		}
		words := got.words()
		if all := strings.ReplaceAll(strings.Join(changes, "; "), "*", ""); strings.Join(words, "; ") != all {
			t.Errorf("%s: changes %q, want %q", when, words, all)
		}
	}
	o.Gated(worker.ForcedUp)
	want("before a decision", states.Success, worker.ForcedUp, "", "unknown-success*")
	o.Gated(worker.ForcedDown)
	want("down", states.Failure, worker.ForcedDown, "forced down", "success-failure forced forced down*")
	o.Gated(worker.Paused)
	want("a pause instead", states.Unknown, worker.Open, "", "failure-unknown*")
	o.Tick(tick(probe.Failure, 1, 1, ok, bad))
	want("a failure", states.Failure, worker.Open, "failure", "unknown-failure  failure")
	o.Gated(worker.ForcedDown)
	want("a failure, forced down", states.Failure, worker.ForcedDown, "forced down", "failure-failure forced forced down*")
	o.Gated(worker.Drained)
	want("drained", states.Failure, worker.Drained, "failure", "failure-failure  failure*")
	o.Gated(worker.ForcedUp)
	want("a failure, forced up", states.Success, worker.ForcedUp, "", "failure-success*")
	o.Gated(worker.NotRunning)
	want("a stopped container", states.Failure, worker.Open, "failure", "success-failure  failure*")
	o.Gated(worker.ForcedUp)
	want("it runs again", states.Success, worker.ForcedUp, "", "failure-success*")
	o.Tick(tick(probe.Success, 1, 1, bad, ok))
	want("an attempt", states.Success, worker.Open, "", "success-failure  failure*", "failure-success  success")
}

func TestChangeHasTimesHandlerAndTarget(t *testing.T) {
	var got told
	tracker := states.New(&got)
	tracker.Target = func(i *worker.Info) string { return i.Handler + " of " + i.Pod }
	o := tracker.Observe(worker.Info{Subject: results.Subject{Pod: "web"}, Handler: "old"})
	o.Tick(tick(probe.Success, 1, 1, results.Failure, results.Success))
	o.Tick(tick(probe.Failure, 9, 1, results.Success, results.Failure))
	c := got.changes[1]
	if c.Info.Pod != "web" || c.Info.Handler != "http" || c.Target != "http of web" || !c.Since.Equal(time.Unix(1, 0)) || !c.Time.Equal(time.Unix(9, 0)) {
		t.Errorf("got %+v", c)
	}
}

// badReader is a faulty reader.
type badReader struct{ do func() }

func (r badReader) Changed(*states.Change) { r.do() }

// A faulty reader or Target does not keep changes from other readers.
func TestFaultyReaderDoesNotAffectOthers(t *testing.T) {
	for name, fault := range map[string]func(){"panics": func() { panic("a villain") }, "calls runtime.Goexit": runtime.Goexit} {
		for _, culprit := range []string{"reader", "Target"} {
			t.Run(culprit+" "+name, func(t *testing.T) {
				var got told
				tracker := states.New(badReader{func() {
					if culprit == "reader" {
						fault()
					}
				}}, &got)
				tracker.Target = func(*worker.Info) string {
					if culprit == "Target" {
						fault()
					}
					return "a target"
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { _ = recover() }() // as the worker does
					tracker.Observe(worker.Info{}).Tick(tick(probe.Success, 1, 1, results.Failure, results.Success))
				}()
				<-done
				if words := got.words(); len(words) != 1 {
					t.Errorf("got %q", words)
				}
			})
		}
	}
}

func TestStoppedTrackerNotifiesNobody(t *testing.T) {
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

func TestTextIsTruncatedToOneLine(t *testing.T) {
	long := strings.Repeat("ü", states.MaxText/2-2) + "…"
	for _, c := range []struct{ output, want string }{
		{"no\n", "no"},
		{" \r\n ", ""},
		{"a\nb\tc\u2028\x1b[31m\xff\u202e", "a b c \x1b[31m\xff\u202e"},
		{strings.Repeat("ü", states.MaxText/2), strings.Repeat("ü", states.MaxText/2)},
		{strings.Repeat("ü", states.MaxText), long},
		{strings.Repeat("ü", 5*states.MaxText) + "\n", long},
		{strings.Repeat("ü", 1<<20), long},
	} {
		var got told
		tracker := states.New(&got)
		o := tracker.Observe(worker.Info{})
		bad := tick(probe.Failure, 1, 1, results.Success, results.Failure)
		bad.Outcome.Output = c.output
		o.Tick(bad)
		failing := &worker.Tick{Err: errors.New(c.output), After: results.Failure}
		for range 3 {
			o.Tick(failing)
		}
		if len(got.changes) != 2 {
			t.Fatalf("%.20q: got %d changes, want one of the output and one of the error", c.output, len(got.changes))
		}
		for _, text := range []string{got.changes[0].Text, got.changes[1].Text, tracker.Of("", "", probe.Liveness).Text} {
			if text != c.want {
				t.Errorf("%.20q: got %.40q of %d bytes, want %.40q of %d", c.output, text, len(text), c.want, len(c.want))
			}
		}
	}
}

func TestOfReturnsState(t *testing.T) {
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

// failed returns a tick of a failing probe at the given second.
func failed(second int, reason probe.Reason, text string) *worker.Tick {
	t := tick(probe.Failure, second, 1, results.Failure, results.Failure)
	t.Outcome.Reason, t.Outcome.Output = reason, text
	return t
}

func TestLastingCauseIsReported(t *testing.T) {
	const refused, status = probe.ReasonConnectRefused, probe.ReasonHTTPStatus
	const first = "unknown-failure connect_refused connection refused"
	for _, c := range []struct {
		name  string
		ticks []*worker.Tick
		want  []string
	}{
		{"three ticks", []*worker.Tick{
			failed(2, status, "code: 503"), failed(3, status, "code: 503"), failed(4, status, "code: 503"), failed(5, status, "code: 503"),
		}, []string{first, "failure-failure http_status code: 503"}},
		{"a minute", []*worker.Tick{failed(100, status, "code: 503"), failed(160, status, "code: 503")}, []string{first, "failure-failure http_status code: 503"}},
		{"not once", []*worker.Tick{failed(300, status, "code: 503"), failed(600, refused, "connection refused"), failed(900, status, "code: 503")}, []string{first}},
		{"another status code", []*worker.Tick{
			failed(2, status, "code: 503"), failed(3, status, "code: 503"), failed(4, status, "code: 503"), failed(5, status, "code: 504"), failed(6, status, "code: 504"), failed(7, status, "code: 504"),
		}, []string{first, "failure-failure http_status code: 503", "failure-failure http_status code: 504"}},
		{"a number is none", []*worker.Tick{
			failed(2, status, "code: 503 in 998ms"), failed(3, status, "code: 503 in 1.2s"), failed(4, status, "code: 503 in 12ms"), failed(5, status, "code: 503 in 13ms"), failed(6, status, "code: 503 in 1m2s"),
		}, []string{first, "failure-failure http_status code: 503 in 12ms"}},
		{"a success below the threshold is none", []*worker.Tick{
			tick(probe.Success, 1, 2, results.Failure, results.Failure), tick(probe.Success, 1, 2, results.Failure, results.Failure), tick(probe.Success, 1, 2, results.Failure, results.Failure),
		}, []string{first}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got told
			o := states.New(&got).Observe(worker.Info{})
			for _, tick := range append([]*worker.Tick{failed(1, refused, "connection refused")}, c.ticks...) {
				o.Tick(tick)
			}
			if words := got.words(); !slices.Equal(words, c.want) {
				t.Errorf("got  %q\nwant %q", words, c.want)
			}
		})
	}
}

func TestOfReturnsNewestCause(t *testing.T) {
	tracker := states.New()
	o := tracker.Observe(worker.Info{})
	check := func(want states.Cause) {
		t.Helper()
		if got := tracker.Of("", "", probe.Liveness).Cause; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	o.Tick(failed(1, probe.ReasonConnectRefused, "connection refused"))
	o.Tick(failed(2, probe.ReasonHTTPStatus, "code: 503"))
	check(states.Cause{Reason: "http_status", Text: "code: 503"})
	for range 3 {
		o.Tick(&worker.Tick{Err: errors.New("no memory"), After: results.Failure})
	}
	check(states.Cause{Reason: "internal", Text: "no memory"})
	o.Tick(tick(probe.Success, 1, 1, results.Failure, results.Success))
	check(states.Cause{})
}

// TestCauseOfDeadlineSaysWhatWasAwaited has the reason of the last dial too, where the handler dialed until the
// deadline.
func TestCauseOfDeadlineSaysWhatWasAwaited(t *testing.T) {
	for _, reason := range []probe.Reason{probe.ReasonDeadline, probe.ReasonConnectRefused} {
		var got told
		o := states.New(&got).Observe(worker.Info{})
		for second := 1; second <= 5; second++ {
			x := failed(second, reason, "timed out after 1s")
			wait := explain.Wait{Call: "read", Where: "tcp 10.0.0.7:6379", For: time.Duration(second) * time.Millisecond, Saw: []string{"24 bytes sent, 0 received"}}
			if second > 1 {
				wait.Own = []string{"before: waited 1ms in 1 host call"}
			}
			wait.Describe(&x.Outcome)
			o.Tick(x)
		}
		want := []string{"unknown-failure " + string(reason) + " timed out after 1s: read tcp 10.0.0.7:6379: 24 bytes sent, 0 received"}
		if !slices.Equal(got.words(), want) {
			t.Errorf("got %q, want %q", got.words(), want)
		}
	}
}

func TestTicksWithOneCauseAllocateNothing(t *testing.T) {
	o := states.New().Observe(worker.Info{})
	for _, c := range []struct {
		name  string
		ticks []*worker.Tick
	}{
		{"success", []*worker.Tick{tick(probe.Success, 1, 1, results.Success, results.Success)}},
		{"failure", []*worker.Tick{failed(1, probe.ReasonHTTPStatus, "code: 503")}},
		{"failure with a latency", []*worker.Tick{failed(1, "", "after 312ms"), failed(2, "", "after 1.2s"), failed(3, "", "after 1.25s")}},
		{"long text", []*worker.Tick{failed(1, "", strings.Repeat("ü", states.MaxText))}},
	} {
		i := 0
		next := func() { o.Tick(c.ticks[i%len(c.ticks)]); i++ }
		for range 4 {
			next()
		}
		if n := testing.AllocsPerRun(100, next); n > 0 {
			t.Errorf("%s: %v allocations a tick", c.name, n)
		}
	}
}

func TestAlike(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"", "", true},
		{"a", "", false},
		{"read tcp 10.0.0.7:54321->10.0.0.8:80: i/o timeout", "read tcp 10.0.0.9:54322->10.0.0.8:80: i/o timeout", true},
		{"read tcp 10.0.0.7:80: i/o timeout", "dial tcp 10.0.0.7:80: i/o timeout", false},
		{"waited 998ms", "waited 1.002s", true},
		{"13 days", "9 days", true},
		{"status 503", "status 504", false},
		{"status 503", "status 50", false},
		{"status 503.", "status 503.", true},
		{"took 5031ms", "took 401ms", true},
		{"ü1", "ü23µs", true},
	} {
		if got := states.Alike(c.a, c.b); got != c.want || states.Alike(c.b, c.a) != got {
			t.Errorf("Alike(%q, %q) = %v", c.a, c.b, got)
		}
		if a, b := states.Pattern(c.a), states.Pattern(c.b); (a == b) != c.want {
			t.Errorf("patterns %q and %q of texts that are alike: %v", a, b, c.want)
		}
	}
}

func FuzzPatternsAreEqualIfTextsAreAlike(f *testing.F) {
	f.Add("dial tcp 10.0.0.7:80: connection refused in 12.5ms", "dial tcp 10.0.0.8:81: connection refused in 3s")
	f.Add("statuscode: 503", "statuscode: 5030")
	f.Add("0", "7")
	f.Fuzz(func(t *testing.T, a, b string) {
		if equal := states.Pattern(a) == states.Pattern(b); equal != states.Alike(a, b) {
			t.Errorf("%q and %q: equal patterns %v, alike %v", a, b, equal, !equal)
		}
		if p := states.Pattern(a); states.Pattern(p) != p || !states.Alike(a, p) {
			t.Errorf("the pattern of %q is %q, and its pattern is %q", a, p, states.Pattern(p))
		}
	})
}
