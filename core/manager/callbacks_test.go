package manager_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/probe"
)

// villain implements the callbacks of a manager. One callback is faulty, for the pod "bad" only.
type villain struct {
	manager.StatusStore
	callback, fault string
	release         chan struct{} // unblocks the callbacks that block
	calls           atomic.Int64
	handler         probe.Handler
}

func (v *villain) do(callback string) {
	if callback != v.callback {
		return
	}
	v.calls.Add(1)
	switch v.fault {
	case "panics":
		panic("a villain")
	case "calls runtime.Goexit":
		runtime.Goexit()
	case "blocks":
		<-v.release
	}
}

func (v *villain) Prepare(name string, _ []byte, _ probe.Target) (probe.Handler, error) {
	if name != "bad" {
		return v.handler, nil
	}
	v.do("`Handlers.Prepare`")
	if v.callback == "`Error` of its error" {
		return nil, villainError{v}
	}
	return villainProbe{v}, nil
}

type villainError struct{ *villain }

func (e villainError) Error() string {
	e.do("`Error` of its error")
	return "an error"
}

func (v *villain) Event(object kruntime.Object, _, _, _ string) {
	if object.(*v1.ObjectReference).UID == "bad" {
		v.do("`Recorder.Event`")
	}
}

func (v *villain) Restarts(pod *v1.Pod, _ *v1.Container) bool {
	if pod.UID == "bad" {
		v.do("`RestartSource.Restarts`")
	}
	return true
}

func (v *villain) resolve(string, string) (string, error) {
	v.do("`Config.ResolveSecret`")
	return "hunter22", nil
}

func (v *villain) WatchStatus(uid types.UID, publish func(*v1.PodStatus)) (stop func()) {
	if uid == "bad" {
		v.do("`StatusPublisher.WatchStatus`")
	}
	stopped := v.StatusStore.WatchStatus(uid, publish)
	return func() {
		stopped()
		if uid == "bad" {
			v.do("stop of `WatchStatus`")
		}
	}
}

// asked is a villain without WatchStatus.
type asked struct{ v *villain }

func (a asked) PodStatus(uid types.UID) (v1.PodStatus, bool) {
	if uid == "bad" {
		a.v.do("`StatusSource.PodStatus`")
	}
	return a.v.StatusStore.PodStatus(uid)
}

type villainProbe struct{ *villain }

func (v villainProbe) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	return probe.Outcome{Result: probe.Failure}, nil
}
func (v villainProbe) KeepSecret(func(string) string) { v.do("`SecretKeeper.KeepSecret`") }
func (v villainProbe) CheckSecrets([]string) error    { v.do("`SecretChecker.CheckSecrets`"); return nil }
func (v villainProbe) Release()                       { v.do("`Releaser.Release`") }

const addEnds = "ends the goroutine of `AddPod`, which adds no probe"

// callbacks lists the callbacks of a manager that a group does not have, with the effect of each fault on
// its own pod.
var callbacks = []struct {
	name string
	want [3]string
}{
	{"`Handlers.Prepare`", [3]string{"is the error of `AddPod`", addEnds, "`AddPod` waits"}},
	{"`Error` of its error", [3]string{"is the error of `AddPod`", addEnds, "`AddPod` waits"}},
	{"`Config.ResolveSecret`", [3]string{"is the error of `AddPod`", addEnds, "`AddPod` waits"}},
	{"`SecretChecker.CheckSecrets`", [3]string{"is the error of `AddPod`", addEnds, "`AddPod` waits"}},
	{"`SecretKeeper.KeepSecret`", [3]string{"is the error of `AddPod`", addEnds, "`AddPod` waits"}},
	{"`RestartSource.Restarts`", [3]string{"goes on", addEnds, "`AddPod` waits"}},
	{"`StatusPublisher.WatchStatus`", [3]string{"goes on", addEnds, "`AddPod` waits"}},
	{"stop of `WatchStatus`", [3]string{"goes on", "goes on", "`RemovePod` waits"}},
	{"`StatusSource.PodStatus`", [3]string{"the tick is skipped", "the tick is skipped", "waits"}},
	{"`Recorder.Event`", [3]string{"goes on", "goes on", "goes on"}},
}

// A faulty callback of one pod does not affect others: their probes continue to tick, calls for them
// return, and Shutdown ends.
func TestCallbacks(t *testing.T) {
	for _, c := range callbacks {
		for i, fault := range []string{"panics", "calls runtime.Goexit", "blocks"} {
			t.Run(c.name+" "+fault, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testCallback(t, c.name, fault, c.want[i]) })
			})
		}
	}
}

func testCallback(t *testing.T, callback, fault, want string) {
	var ticks atomic.Int64
	v := &villain{callback: callback, fault: fault, release: make(chan struct{})}
	v.handler = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
		ticks.Add(1)
		return probe.Outcome{Result: probe.Failure}, nil
	})
	var source manager.StatusSource = v
	if callback == "`StatusSource.PodStatus`" {
		source = asked{v}
	}
	m, err := manager.New(manager.Config{
		Status: source, Handlers: v, Recorder: v, ResolveSecret: v.resolve, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Hour)
	pod := func(name string) *v1.Pod {
		p := podOf(name, container("web"))
		p.Annotations = map[string]string{declared.Annotation: fmt.Sprintf(`{web: {readiness: {plugin: {name: %s, config: {x: "${env:X}"}}, period: 1s}}}`, name)}
		if name != "bad" {
			p.Annotations[declared.Annotation] = fmt.Sprintf(`{web: {readiness: {plugin: {name: %s}, period: 1s}}}`, name)
		}
		v.SetPodStatus(p, statusOf(running("web", name)))
		return p
	}
	good, bad, third := pod("good"), pod("bad"), pod("third")
	if err := m.AddPod(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	added := call(func() { err = m.AddPod(t.Context(), bad) })
	synctest.Wait()
	time.Sleep(time.Minute)

	before := ticks.Load()
	others := call(func() {
		_ = m.AddPod(t.Context(), third)
		st, _ := v.StatusStore.PodStatus("third")
		m.UpdatePodStatus(third, &st)
		m.RemovePod(third)
		m.Probes()
	})
	time.Sleep(10 * time.Second)
	if got := ticks.Load() - before; got < 10 {
		t.Errorf("the probe of another pod had %d ticks in 10 s", got)
	}
	if got := others(); got != "returned" {
		t.Errorf("calls for another pod: %s", got)
	}
	var got string
	said := added()
	switch key := (manager.Key{PodUID: "bad", Container: "web", Kind: probe.Readiness}); {
	case said == "waits":
		got = "`AddPod` waits"
	case said == "ended":
		got = addEnds
	case said != "returned":
		got = "`AddPod` " + said
	case err != nil && strings.Contains(err.Error(), "panic: a villain"):
		got = "is the error of `AddPod`"
	default:
		s, ok := m.Probe(key)
		switch {
		case !ok:
			got = "ends"
		case s.Last != nil && time.Since(s.Last.Time) < 3*time.Second:
			got = "goes on"
		case fault == "blocks":
			got = "waits"
		default:
			got = "the tick is skipped"
		}
	}
	removed := call(func() { m.RemovePod(bad) })
	time.Sleep(time.Second)
	if got == "goes on" && removed() == "waits" {
		got = "`RemovePod` waits"
	}
	if got != want {
		t.Errorf("own pod: %s, want %s (%v)", got, want, err)
	}
	if v.calls.Load() == 0 {
		t.Error("the callback was not called")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	start := time.Now()
	if err := m.Shutdown(ctx); err != nil && fault != "blocks" {
		t.Errorf("Shutdown: %v", err)
	}
	if took := time.Since(start); took > 7*time.Second {
		t.Errorf("Shutdown took %v", took)
	}
	close(v.release)
	synctest.Wait()
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
