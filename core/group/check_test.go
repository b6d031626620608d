package group_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// succeed is a handler whose attempts succeed.
var succeed = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
	return probe.Outcome{Result: probe.Success}, nil
})

// newGroup returns a group that the end of the test shuts down.
func newGroup(t *testing.T) *group.Group[string] {
	t.Helper()
	g, err := group.New[string](group.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return g
}

// newProbe returns a valid readiness probe of a task called web, which runs.
func newProbe() group.Probe {
	task := &worker.Task{Subject: results.Subject{Pod: "checkout", Container: "web"}}
	task.SetState(worker.Running("checkout/web/1", time.Now()))
	return group.Probe{Task: task, Kind: probe.Readiness, Handler: succeed, Spec: probe.Spec{Period: time.Hour}}
}

func TestInvalidProbeErrorNamesField(t *testing.T) {
	g := newGroup(t)
	for want, change := range map[string]func(*group.Probe){
		"key checkout: Probe.Task is nil":                                                                            func(p *group.Probe) { p.Task = nil },
		`key checkout, task "web", readiness: Probe.Handler is nil`:                                                  func(p *group.Probe) { p.Handler = nil },
		`key checkout, task "web", unknown: Probe.Kind is 3: must be one of [liveness readiness startup]`:            func(p *group.Probe) { p.Kind = 3 },
		`key checkout, task "web", readiness: Probe.Spec.Period is -1s: must be at least 1ms`:                        func(p *group.Probe) { p.Spec.Period = -time.Second },
		`key checkout, task "web", readiness: Probe.Spec.Period is 10ns: must be at least 1ms`:                       func(p *group.Probe) { p.Spec.Period = 10 },
		`key checkout, task "web", readiness: Probe.Spec.Timeout is 1ns: must be at least 1ms, or negative for none`: func(p *group.Probe) { p.Spec.Timeout = 1 },
		`key checkout, task "web", readiness: Probe.Spec.SuccessThreshold is -1: must not be negative`:               func(p *group.Probe) { p.Spec.SuccessThreshold = -1 },
		`key checkout, task "web", readiness: Probe.Spec.FailureThreshold is -2: must not be negative`:               func(p *group.Probe) { p.Spec.FailureThreshold = -2 },
	} {
		p := newProbe()
		change(&p)
		if err := g.Add("checkout", p); err == nil || err.Error() != want {
			t.Errorf("Add returned\n%v, want\n%s", err, want)
		}
		if err := g.Update("checkout", p); err == nil || err.Error() != want {
			t.Errorf("Update returned\n%v, want\n%s", err, want)
		}
	}
	if keys := g.Keys(); len(keys) > 0 {
		t.Errorf("the group has probes of %v", keys)
	}
}

func TestSpecHasDefaultsOfKubelet(t *testing.T) {
	g, p := newGroup(t), newProbe()
	p.Spec = probe.Spec{}
	if err := g.Add("checkout", p); err != nil {
		t.Fatal(err)
	}
	id := group.ID[string]{Key: "checkout", Task: "web", Kind: probe.Readiness}
	want := probe.Spec{Period: 10 * time.Second, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 3}
	if s, _ := g.Status(id); s.Spec != want {
		t.Errorf("Add: got %+v, want %+v", s.Spec, want)
	}
	p.Spec = probe.Spec{Period: time.Minute, Timeout: -1, FailureThreshold: 1}
	if err := g.Update("checkout", p); err != nil {
		t.Fatal(err)
	}
	want = probe.Spec{Period: time.Minute, Timeout: -1, SuccessThreshold: 1, FailureThreshold: 1}
	if s, _ := g.Status(id); s.Spec != want {
		t.Errorf("Update: got %+v, want %+v", s.Spec, want)
	}
}

func TestErrorsNameProbe(t *testing.T) {
	g, p := newGroup(t), newProbe()
	if err := g.Add("checkout", p); err != nil {
		t.Fatal(err)
	}
	const exists = `key checkout, task "web", readiness: probe exists already`
	if err := g.Add("checkout", p); !errors.Is(err, group.ErrExists) || err.Error() != exists {
		t.Errorf("got %v, want %s", err, exists)
	}
	unknown := group.ID[string]{Key: "cart", Task: "web", Kind: probe.Startup}
	const missing = `key cart, task "web", startup: no such probe`
	for name, act := range map[string]func(group.ID[string]) error{"Trigger": g.Trigger, "Pause": g.Pause, "Resume": g.Resume} {
		if err := act(unknown); !errors.Is(err, group.ErrNotFound) || err.Error() != missing {
			t.Errorf("%s returned %v, want %s", name, err, missing)
		}
	}
	p.Task = newProbe().Task
	if err := g.Update("checkout", p); err == nil || !strings.HasSuffix(err.Error(), "the probe has another Task") {
		t.Errorf("Update with another Task returned %v", err)
	}
	if err := g.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Add("cart", newProbe()); !errors.Is(err, group.ErrClosed) {
		t.Errorf("got %v after Shutdown", err)
	}
}
