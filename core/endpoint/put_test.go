package endpoint

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// waiting returns how many times a set waits for.
func waiting(s *Set[string]) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.deadlines.list)
}

// taskOf returns a task of a check that runs.
func taskOf(name, id string) *worker.Task {
	t := &worker.Task{Subject: results.Subject{Container: name}}
	t.SetState(worker.Running(id, time.Now()))
	return t
}

// A Put that the group refuses leaves nothing of its checks, also if one of them has ticked.
func TestRefusedPutLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New[string](Config{Group: group.Config{Observers: []worker.Observer{&watcher{func() { time.Sleep(time.Second) }}}}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		h := handler(probe.Failure)
		e := Endpoint[string]{Checks: []Check{
			{Name: "a", StartPeriod: time.Hour, Probe: &group.Probe{Handler: h, Spec: spec, Task: taskOf("a", "1")}},
			{Name: "b", Probe: &group.Probe{Handler: h, Spec: spec, Task: taskOf("b", "1")}},
		}}
		if _, inUse := errors.AsType[*worker.InUseError](s.Put("x", e)); !inUse {
			t.Errorf("got the error %v", err)
		}
		asked := len(h.asked())
		if _, ok := s.Status("x"); ok || waiting(s) != 0 || asked == 0 {
			t.Errorf("the endpoint exists: %t; %d deadlines, %d attempts", ok, waiting(s), asked)
		}
		time.Sleep(time.Minute)
		if n := len(h.asked()); n != asked {
			t.Errorf("%d attempts after the error", n-asked)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A check that Put leaves out changes nothing later.
func TestPutForgetsOldChecks(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		put(t, s, "a", Endpoint[string]{Checks: pushed("push", "other")})
		if err := s.Force("a", Forced{Mode: Drained, Until: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		put(t, s, "a", Endpoint[string]{Checks: pushed("push")})
		if n := waiting(s); n != 2 {
			t.Errorf("%d deadlines, want one of the check and one of the forced state", n)
		}
		if err := s.Remove("a"); err != nil {
			t.Fatal(err)
		}
		if n := waiting(s); n != 0 {
			t.Errorf("%d deadlines of nothing", n)
		}
	})
}

// A probe whose task has ended begins anew with another task.
func TestPutWithAnotherTask(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		first := taskOf("http", "1")
		p := &group.Probe{Handler: handler(probe.Success), Task: first, Spec: probe.Spec{Period: 10 * time.Second, Timeout: time.Second, SuccessThreshold: 2}}
		e := Endpoint[string]{Checks: []Check{{Name: "http", Probe: p}}}
		put(t, s, "a", e)
		time.Sleep(10 * time.Second)
		expect(t, s, "a", states.Success, "")
		first.SetState(worker.State{Found: true, ContainerID: "1", Final: true})
		time.Sleep(10 * time.Second)
		expect(t, s, "a", states.Failure, "http")
		p.Task = taskOf("http", "2")
		put(t, s, "a", e)
		expect(t, s, "a", states.Unknown, "http") // one success of two
		time.Sleep(10 * time.Second)
		expect(t, s, "a", states.Success, "")
	})
}
