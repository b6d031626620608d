package group_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// villain implements every callback of a group. One callback is faulty, for the probe of the pod "bad"
// only.
type villain struct {
	slog.Handler
	g        *group.Group[string]
	callback string
	fault    string
	release  chan struct{} // unblocks the callbacks that block
	calls    list[string]
}

// do is called by each callback.
func (v *villain) do(callback string) {
	if callback != v.callback {
		return
	}
	v.calls.add(callback)
	switch v.fault {
	case "panics":
		panic("a villain")
	case "calls runtime.Goexit":
		runtime.Goexit()
	case "blocks":
		<-v.release
	case "calls the group":
		if len(v.calls.get()) < 4 { // each Resume is a tick
			v.reenter()
		}
	}
}

// reenter calls the group's methods that do not wait for the callback.
func (v *villain) reenter() {
	id := group.ID[string]{Key: "bad", Task: "web", Kind: probe.Readiness}
	_, _ = v.g.Latest(id)
	_, _ = v.g.Explain(id)
	_ = v.g.IDs()
	_ = v.g.Pause(id)
	_ = v.g.Resume(id)
	p := v.probe("other")
	p.Handler = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) { return probe.Outcome{}, nil })
	_ = v.g.Add("other", p)
	v.g.Remove("other")
}

func (v *villain) probe(key string) group.Probe {
	task := &worker.Task{Subject: results.Subject{Pod: key, Container: "web"}}
	task.SetState(worker.Running(key, time.Now()))
	return group.Probe{Task: task, Kind: probe.Readiness, Spec: probe.Spec{Period: time.Second, Timeout: 500 * ms}, Name: "fake"}
}

func (v *villain) Enabled(context.Context, slog.Level) bool { return true }

func (v *villain) Handle(context.Context, slog.Record) error {
	v.do("`slog.Handler`")
	return nil
}

func (v *villain) event(e group.Event) {
	if e.Info.Pod == "bad" {
		v.do("`Config.Event`")
	}
}

func (v *villain) Observe(i worker.Info) worker.ProbeObserver {
	if i.Pod != "bad" {
		return nil
	}
	v.do("`Observer.Observe`")
	return villainProbe{v}
}

// villainProbe is the handler, the observer and the source of one probe.
type villainProbe struct{ *villain }

func (v villainProbe) Probe(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
	if v.callback == "`slog.Handler`" {
		panic("to be logged")
	}
	v.do("`Handler.Probe`")
	if v.callback == "`Error` of its error" {
		return probe.Outcome{}, villainError(v)
	}
	return probe.Outcome{Result: probe.Failure}, nil
}

// villainError is the error of an attempt.
type villainError villainProbe

func (e villainError) Error() string {
	villainProbe(e).do("`Error` of its error")
	return "an error"
}

func (v villainProbe) Describe(string, *probe.Request) string {
	v.do("`Describer.Describe`")
	return "a villain"
}

func (v villainProbe) Release()                       { v.do("`Releaser.Release`") }
func (v villainProbe) Tick(*worker.Tick)              { v.do("`ProbeObserver.Tick`") }
func (v villainProbe) Skipped(worker.SkipReason, int) { v.do("`ProbeObserver.Skipped`") }
func (v villainProbe) Gated(worker.Gate)              { v.do("`GateObserver.Gated`") }
func (v villainProbe) Decided(results.Result)         { v.do("`DecisionObserver.Decided`") }
func (v villainProbe) Close()                         { v.do("`ProbeObserver.Close`") }

func (v villainProbe) State() worker.State {
	v.do("`worker.Source.State`")
	return worker.Running("bad", time.Now().Add(-time.Hour))
}

// villainPublisher publishes the state.
type villainPublisher struct{ villainProbe }

func (v villainPublisher) Publish(set func(worker.State)) (stop func(), ok bool) {
	v.do("`Publisher.Publish`")
	set(worker.Running("bad", time.Now().Add(-time.Hour)))
	return func() { v.do("stop of `Publish`") }, true
}

// witness is a healthy probe and its observer, with the observed ticks.
type witness struct {
	ticks list[time.Time]
}

func (w *witness) Observe(i worker.Info) worker.ProbeObserver {
	if i.Pod != "good" {
		return nil
	}
	return w
}
func (w *witness) Tick(t *worker.Tick)            { w.ticks.add(t.Start) }
func (w *witness) Skipped(worker.SkipReason, int) {}
func (w *witness) Close()                         {}

// attempts counts the ticks, skips and events of the bad probe.
type attempts struct{ ticks, skips list[time.Time] }

func (a *attempts) Observe(i worker.Info) worker.ProbeObserver {
	if i.Pod != "bad" {
		return nil
	}
	return a
}
func (a *attempts) Tick(t *worker.Tick)            { a.ticks.add(t.Start) }
func (a *attempts) Skipped(worker.SkipReason, int) { a.skips.add(time.Now()) }
func (a *attempts) Close()                         {}

var faults = []string{"panics", "calls runtime.Goexit", "blocks", "calls the group"}

// callbacks lists all callbacks of a group, with the effect of each fault on its own probe.
var callbacks = []struct {
	name string
	want [4]string
}{
	{"`Handler.Probe`", [4]string{"the attempt is an error", "the attempt is an error, and not tried again", "the tick is overdue", "goes on"}},
	{"`Error` of its error", [4]string{"the attempt is an error", "the attempt is an error, and not tried again", "the tick is overdue", "the attempt is an error"}},
	{"`Describer.Describe`", [4]string{"goes on", "ends the goroutine that asked", "who asked waits", "goes on"}},
	{"`Releaser.Release`", [4]string{"goes on", "goes on", "`Remove` waits", "goes on"}},
	{"`Observer.Observe`", [4]string{"goes on", "ends the goroutine of `Add`, which adds nothing", "`Add` waits", "goes on"}},
	{"`ProbeObserver.Tick`", [4]string{"goes on", "goes on", "waits", "goes on"}},
	{"`ProbeObserver.Skipped`", [4]string{"goes on", "goes on", "waits", "goes on"}},
	{"`GateObserver.Gated`", [4]string{"goes on", "goes on", "waits", "goes on"}},
	{"`DecisionObserver.Decided`", [4]string{"goes on", "goes on", "the tick is overdue", "goes on"}},
	{"`ProbeObserver.Close`", [4]string{"goes on", "goes on", "`Remove` waits", "goes on"}},
	{"`Config.Event`", [4]string{"goes on", "goes on", "waits", "goes on"}},
	{"`worker.Source.State`", [4]string{"the tick is skipped", "the tick is skipped", "waits", "goes on"}},
	{"`Publisher.Publish`", [4]string{"goes on", "ends the goroutine of `Add`, which adds nothing", "`Add` waits", "goes on"}},
	{"stop of `Publish`", [4]string{"goes on", "goes on", "`Remove` waits", "goes on"}},
	{"`slog.Handler`", [4]string{"goes on", "goes on", "the tick is overdue", "goes on"}},
}

// A faulty callback of one probe does not affect others: their probes continue to tick, Add and Remove
// return, and Shutdown ends.
func TestCallbacks(t *testing.T) {
	for _, c := range callbacks {
		for i, fault := range faults {
			t.Run(c.name+" "+fault, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testCallback(t, c.name, fault, c.want[i]) })
			})
		}
	}
}

func testCallback(t *testing.T, callback, fault, want string) {
	good, seen := new(witness), new(attempts)
	v := &villain{callback: callback, fault: fault, release: make(chan struct{})}
	g, err := group.New[string](group.Config{
		History: 1 << 20, Event: v.event, Observers: []worker.Observer{v, good, seen}, Logger: slog.New(v),
	})
	if err != nil {
		t.Fatal(err)
	}
	v.g = g
	time.Sleep(time.Hour)
	p := v.probe("good")
	p.Handler = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
		return probe.Outcome{Result: probe.Success}, nil
	})
	add(t, g, "good", p)

	bad := v.probe("bad")
	bad.Handler = villainProbe{v}
	switch callback {
	case "`worker.Source.State`", "`ProbeObserver.Skipped`":
		bad.Task.Source = villainProbe{v}
	case "`Publisher.Publish`", "stop of `Publish`":
		bad.Task.Source = villainPublisher{villainProbe{v}}
	}
	if callback == "`ProbeObserver.Skipped`" {
		bad.Handler = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
			time.Sleep(1500 * ms)
			return probe.Outcome{Result: probe.Success}, nil
		})
	}
	id := group.ID[string]{Key: "bad", Task: "web", Kind: probe.Readiness}
	added := call(func() { err = g.Add("bad", bad) })
	wait(time.Minute)
	if callback == "`GateObserver.Gated`" && added() == "returned" {
		_ = g.Pause(id)
		wait(2 * time.Second)
		_ = g.Resume(id)
	}
	asked := call(func() { g.Latest(id) })
	wait(time.Minute)

	before := len(good.ticks.get())
	others := v.probe("third")
	others.Handler = p.Handler
	third := call(func() {
		_ = g.Add("third", others)
		g.Remove("third")
		_ = g.Pause(group.ID[string]{Key: "good", Task: "web"})
	})
	wait(10 * time.Second)
	if got := len(good.ticks.get()) - before; got != 10 {
		t.Errorf("the probe of another had %d ticks in 10 s", got)
	}
	if got := third(); got != "returned" {
		t.Errorf("calls for another probe: %s", got)
	}
	got := outcome(g, id, seen, added(), asked())

	removed := call(func() { g.Remove("bad") })
	wait(time.Second)
	if got == "goes on" && removed() == "waits" {
		got = "`Remove` waits"
	}
	if got != want {
		t.Errorf("own probe: %s, want %s", got, want)
	}
	if len(v.calls.get()) == 0 {
		t.Error("the callback was not called")
	}

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if left, ok := errors.AsType[*group.LeftError](g.Shutdown(ctx)); ok && (fault != "blocks" || len(left.Left) != 1 || left.Left[0].Pod != "bad") {
		t.Errorf("Shutdown: %v", left)
	}
	close(v.release)
	wait(time.Second)
	if err := g.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown after the end of the callback: %v", err)
	}
}

// call calls f in a goroutine. what returns the state of the call.
func call(f func()) (what func() string) {
	said := "waits"
	go func() {
		defer func() {
			switch {
			case said == "returned":
			case recover() != nil:
				said = "panicked"
			default:
				said = "ended"
			}
		}()
		f()
		said = "returned"
	}()
	return func() string {
		synctest.Wait()
		return said
	}
}

// outcome returns the effect on the bad probe, in the words of the table.
func outcome(g *group.Group[string], id group.ID[string], seen *attempts, added, asked string) string {
	switch {
	case added == "waits":
		return "`Add` waits"
	case added == "ended" && !g.Has(id):
		return "ends the goroutine of `Add`, which adds nothing"
	case added != "returned":
		return "`Add` " + added
	case asked == "waits":
		return "who asked waits"
	case asked == "ended":
		return "ends the goroutine that asked"
	}
	s, ok := g.Latest(id)
	ticks, skips := seen.ticks.get(), seen.skips.get()
	recent := func(all []time.Time) bool { return len(all) > 0 && time.Since(all[len(all)-1]) < 3*time.Second }
	switch {
	case !ok:
		return "ends"
	case strings.HasPrefix(s.Gate, worker.UnderWay.String()) && recent(ticks):
		return "the tick is overdue"
	case s.Last != nil && s.Last.Error == "the handler called runtime.Goexit" && recent(ticks):
		return "the attempt is an error, and not tried again"
	case s.Last != nil && s.Last.Error != "" && recent(ticks) && !strings.Contains(s.Last.Error, "logged"):
		return "the attempt is an error"
	case recent(ticks):
		return "goes on"
	case recent(skips):
		return "the tick is skipped"
	default:
		return "waits"
	}
}

// The table in docs/embed/callback-faults.md must equal callbacks. A row may have several of them.
func TestCallbacksAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/embed/callback-faults.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(doc), "\n")
	for _, c := range callbacks {
		want := " | " + strings.Join(c.want[:], " | ") + " |"
		if !slices.ContainsFunc(lines, func(line string) bool {
			names, ok := strings.CutSuffix(strings.TrimPrefix(line, "| "), want)
			return ok && slices.Contains(strings.Split(names, ", "), c.name)
		}) {
			t.Errorf("docs/embed/callback-faults.md has no line\n| %s%s", c.name, want)
		}
	}
}
