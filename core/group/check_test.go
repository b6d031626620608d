package group_test

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// succeed is a handler whose attempts succeed.
var succeed = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
	return probe.Outcome{Result: probe.Success}, nil
})

// newGroup returns a group that is shut down at the end of the test.
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

// newProbe returns a valid readiness probe of a running task called web.
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
		`key checkout, task "web", readiness: Probe.Spec.InitialDelay is -1ns: must not be negative`:                 func(p *group.Probe) { p.Spec.InitialDelay = -1 },
		`key checkout, task "web", readiness: Probe.Spec.ErrorPolicy is 77: must be Discard or CountAsFailure`:       func(p *group.Probe) { p.Spec.ErrorPolicy = 77 },
		`key checkout, task "web", readiness: Probe.Spec.UnhealthyPeriod is 1ns: must be 0, or at least 1ms`:         func(p *group.Probe) { p.Spec.UnhealthyPeriod = 1 },
		`key checkout, task "web", readiness: Probe.Spec.Jitter is 1.01: must be from 0 to 1`:                        func(p *group.Probe) { p.Spec.Jitter = 1.01 },
		`key checkout, task "web", readiness: Probe.Spec.Jitter is NaN: must be from 0 to 1`:                         func(p *group.Probe) { p.Spec.Jitter = math.NaN() },
		`key checkout, task "web", readiness: Probe.Spec.Initial is warning: must be Unknown, Success or Failure`:    func(p *group.Probe) { p.Spec.Initial = probe.Warning },
		`key checkout, task "web", liveness: Probe.Spec.Initial is only for readiness probes`:                        func(p *group.Probe) { p.Kind, p.Spec.Initial = probe.Liveness, probe.Success },
		`key checkout, task "web", readiness: Probe.Target.Port is 65536: must be from 0 to 65535`:                   func(p *group.Probe) { p.Target = probe.Target{Host: "a", Port: 65536} },
		`key checkout, task "web", readiness: Probe.Target.Port is -1: must be from 0 to 65535`:                      func(p *group.Probe) { p.Target = probe.Target{Host: "a", Port: -1} },
		`key checkout, task "web", readiness: Probe.Target has no Host, and the state of Probe.Task no PodIP`:        func(p *group.Probe) { p.Target.Port = 80 },
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

func TestNilObserverIsRefused(t *testing.T) {
	const want = "Config.Observers[1] is nil"
	if _, err := group.New[string](group.Config{Observers: []worker.Observer{new(witness), nil}}); err == nil || err.Error() != want {
		t.Errorf("New returned %v, want %s", err, want)
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
	if err := g.Update("checkout", p); err == nil || !strings.HasSuffix(err.Error(), "Probe.Task is not the task of the running probe") {
		t.Errorf("Update with another Task returned %v", err)
	}
	if err := g.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Add("cart", newProbe()); !errors.Is(err, group.ErrClosed) {
		t.Errorf("got %v after Shutdown", err)
	}
}

// nobody is a handler whose pointer may be nil.
type nobody struct{ probe.HandlerFunc }

func TestNilHandlers(t *testing.T) {
	g := newGroup(t)
	for _, h := range []probe.Handler{nil, probe.HandlerFunc(nil), (*nobody)(nil)} {
		p := newProbe()
		p.Handler = h
		if err := g.Add("checkout", p); err == nil || !strings.HasSuffix(err.Error(), "Probe.Handler is nil") {
			t.Errorf("%T: %v", h, err)
		}
	}
}

// A key that is not equal to itself could not be removed.
func TestKeyNotEqualToItselfIsRefused(t *testing.T) {
	floats, err := group.New[float64](group.Config{})
	if err != nil {
		t.Fatal(err)
	}
	anything, err := group.New[any](group.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := floats.Add(math.NaN(), newProbe()); err == nil {
		t.Error("a probe of NaN was added")
	}
	for _, key := range []any{[]int{1}, math.NaN(), [1]any{func() {}}} {
		if err := anything.Add(key, newProbe()); err == nil {
			t.Errorf("a probe of %v was added", key)
		}
	}
	if err := anything.Add(1, newProbe()); err != nil {
		t.Error(err)
	}
	if err := errors.Join(floats.Shutdown(t.Context()), anything.Shutdown(t.Context())); err != nil {
		t.Error(err)
	}
}

// A task belongs to one key of one group. With two keys, its results would have two owners.
func TestTaskHasOneKey(t *testing.T) {
	g, other := newGroup(t), newGroup(t)
	p := newProbe()
	if err := g.Add("checkout", p); err != nil {
		t.Fatal(err)
	}
	p.Kind = probe.Liveness
	if err := g.Add("checkout", p); err != nil {
		t.Errorf("another kind of the same key: %v", err)
	}
	p.Kind = probe.Startup
	for name, add := range map[string]func() error{
		"another key": func() error { return g.Add("billing", p) }, "another group": func() error { return other.Add("checkout", p) },
		"an update of another key": func() error { return g.Update("billing", p) },
	} {
		if err := add(); err == nil || !strings.Contains(err.Error(), "Probe.Task belongs to another key or group") {
			t.Errorf("%s: %v", name, err)
		}
	}
	g.Remove("checkout")
	if err := g.Add("billing", p); err != nil {
		t.Errorf("after its probes have ended: %v", err)
	}
	g.Remove("billing")
	if err := other.Add("billing", p); err != nil {
		t.Errorf("another group after that: %v", err)
	}
	if keys := g.Keys(); len(keys) != 0 {
		t.Errorf("keys %v", keys)
	}
}

// A task may be added to its key again while the last tick of its removed probe is under way.
func TestAddTaskAgainDuringLastTick(t *testing.T) {
	bubble(t, "", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		p := newProbe()
		p.Handler = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
			time.Sleep(time.Minute)
			return probe.Outcome{}, nil
		})
		add(t, g, "checkout", p)
		g.Remove("checkout")
		p.Handler = succeed
		if err := g.Add("billing", p); err == nil {
			t.Error("another key has the task while an attempt of it is under way")
		}
		add(t, g, "checkout", p)
		wait(2 * time.Minute)
	})
}

func TestShutdownEndsReaders(t *testing.T) {
	bubble(t, "after the last update", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		add(t, g, "checkout", newProbe())
		var all []results.Update
		ended := false
		go func() {
			for _, u := range g.Subscribe(context.Background()) {
				all = append(all, u)
			}
			ended = true
		}()
		wait(time.Minute)
		if err := g.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		wait(time.Second)
		if !ended || len(all) == 0 || !all[len(all)-1].Removed {
			t.Errorf("ended %v, read %+v", ended, all)
		}
		for _, u := range g.Subscribe(context.Background()) {
			t.Errorf("a closed group has %+v", u)
		}
	})
	bubble(t, "also when a handler does not return", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		p := newProbe()
		p.Handler = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
			time.Sleep(time.Hour)
			return probe.Outcome{}, nil
		})
		add(t, g, "checkout", p)
		reader := subscribe(context.Background(), g)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.Shutdown(ctx); err == nil {
			t.Error("Shutdown has no error")
		}
		if all := reader.take(); len(all) == 0 || !all[len(all)-1].Removed {
			t.Errorf("read %+v", all)
		}
	})
}

// The first tick is due within 10 s for any period, even if the group was just made.
func TestFirstTickWithinTenSeconds(t *testing.T) {
	for _, period := range []time.Duration{time.Second, 10 * time.Second, time.Hour, 24 * time.Hour, math.MaxInt64} {
		synctest.Test(t, func(t *testing.T) {
			g, err := group.New[string](group.Config{})
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			var first, second list[time.Duration]
			for i := range 400 {
				p := newProbe()
				p.Task.SetState(worker.Running(fmt.Sprint(i), begin))
				calls := 0
				p.Spec.Period, p.Handler = period, probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
					switch calls++; calls {
					case 1:
						first.add(time.Since(begin))
					case 2:
						second.add(time.Since(begin))
					}
					return probe.Outcome{Result: probe.Success}, nil
				})
				if err := g.Add(fmt.Sprint(i), p); err != nil {
					t.Fatal(err)
				}
			}
			const window = 10 * time.Millisecond // window of the longest periods
			wait(min(period, 48*time.Hour) + 10*time.Second + window)
			all := first.get()
			if len(all) != 400 || slices.Max(all) > 10*time.Second+window || slices.Max(all) < min(period, 10*time.Second)/2 {
				t.Errorf("period %v: %d first ticks within %v", period, len(all), slices.Max(all))
			}
			if period < math.MaxInt64 {
				seconds := second.get()
				slices.Sort(seconds)
				if len(seconds) != 400 || seconds[300]-seconds[100] < period/4 {
					t.Errorf("period %v: %d second ticks, from %v to %v", period, len(seconds), seconds[100], seconds[300])
				}
			}
			if err := g.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
