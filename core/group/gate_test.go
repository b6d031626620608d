package group_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

func TestGate(t *testing.T) {
	log := new(gateLog)
	bubble(t, "text and observer follow the state of the task", group.Config{Observers: []worker.Observer{log}}, func(t *testing.T, g *group.Group[string]) {
		p := newProbe()
		p.Task.SetState(worker.State{})
		p.Spec = probe.Spec{Period: time.Second, InitialDelay: 5 * time.Second, FailureThreshold: 1}
		fails := false
		var mu sync.Mutex
		p.Handler = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
			mu.Lock()
			defer mu.Unlock()
			if fails {
				return probe.Outcome{Result: probe.Failure}, nil
			}
			return probe.Outcome{Result: probe.Success}, nil
		})
		p.Kind = probe.Liveness
		id := add(t, g, "k", p)
		wait(2 * time.Second)
		check := func(text string, gates ...worker.Gate) {
			t.Helper()
			if got := status(t, g, id).Gate; got != text {
				t.Errorf("gate %q, want %q", got, text)
			}
			if got := log.take(); !slices.Equal(got, gates) {
				t.Errorf("observed %v, want %v", got, gates)
			}
		}
		set := func(s worker.State) {
			p.Task.SetState(s)
			wait(2 * time.Second) // two ticks
		}
		check("no status", worker.NoStatus)
		set(worker.State{Found: true})
		check("no container", worker.NoContainer)
		now := time.Now()
		run := worker.Running("1", now)
		set(run)
		check("initial delay, 3s left", worker.InitialDelay)
		run.Started = false
		set(run)
		check("initial delay, 1s left")
		wait(2 * time.Second)
		check("not started", worker.NotStarted)
		run.Started = true
		set(run)
		check("", worker.Open)
		if err := g.Pause(id); err != nil {
			t.Fatal(err)
		}
		check("paused")
		wait(2 * time.Second)
		check("paused", worker.Paused)
		mu.Lock()
		fails = true
		mu.Unlock()
		if err := g.Resume(id); err != nil {
			t.Fatal(err)
		}
		wait(2 * time.Second)
		check("on hold", worker.Open, worker.OnHold)
		run.Running = false
		set(run)
		check("on hold") // until there is a new container
		next := worker.State{Found: true, ContainerID: "2"}
		set(next)
		check("container not running", worker.NotRunning)
		mu.Lock()
		fails = false
		mu.Unlock()
		set(worker.Running("2", now))
		check("", worker.Open)
		set(worker.State{Found: true, ContainerID: "2", Running: true, Started: true, Deleting: true})
		if _, ok := g.Status(id); ok || !slices.Equal(log.take(), []worker.Gate{worker.Terminating}) || log.closed != 1 {
			t.Error("liveness of a task that is being deleted has not ended")
		}
	})
	bubble(t, "of a startup probe is closed when the task has started", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		p := newProbe()
		p.Kind = probe.Startup
		id := add(t, g, "k", p)
		if got := status(t, g, id).Gate; got != "started" {
			t.Errorf("gate %q", got)
		}
	})
	bubble(t, "names the end of a quarantine", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		until := time.Now().Add(time.Minute)
		p := newProbe()
		p.Handler = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
			return probe.Outcome{}, quarantine(until)
		})
		id := add(t, g, "k", p)
		s := status(t, g, id)
		if want := fmt.Sprintf("quarantined until %s", until.UTC().Format(time.RFC3339)); s.Gate != want || s.Last == nil || s.Last.Error == "" {
			t.Errorf("gate %q, want %q; last %+v", s.Gate, want, s.Last)
		}
	})
}

// quarantine is the error of a handler that makes no attempts until the given time.
type quarantine time.Time

func (quarantine) Error() string                 { return "the plugin is broken" }
func (q quarantine) QuarantinedUntil() time.Time { return time.Time(q) }

// publisher is a [worker.Publisher] that counts its calls.
type publisher struct {
	refuses bool

	mu                     sync.Mutex
	state                  worker.State
	set                    func(worker.State)
	pulled, started, ended int
}

func (p *publisher) State() worker.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pulled++
	return p.state
}

func (p *publisher) Publish(set func(worker.State)) (stop func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started++; p.refuses {
		return nil, false
	}
	p.set = set
	set(p.state)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended++
	}, true
}

// silentPublisher calls set only if it has a state, like a store of statuses.
type silentPublisher struct{ first worker.State }

func (p *silentPublisher) State() worker.State { return p.first }

func (p *silentPublisher) Publish(set func(worker.State)) (stop func(), ok bool) {
	if p.first.Found {
		set(p.first)
	}
	return func() {}, true
}

func (p *publisher) want(t *testing.T, step string, pulled, started, ended int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pulled != pulled || p.started != started || p.ended != ended {
		t.Errorf("%s: pulled %d, started %d, stopped %d times; want %d, %d, %d", step, p.pulled, p.started, p.ended, pulled, started, ended)
	}
}

func TestPublisher(t *testing.T) {
	bubble(t, "is started with the first probe of a task, and stopped with the last", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		source := &publisher{state: worker.Running("1", time.Now())}
		p := newProbe()
		p.Task = &worker.Task{Source: source}
		p.Spec.Period = time.Second
		id := add(t, g, "k", p)
		if gate := status(t, g, id).Gate; gate != "" {
			t.Errorf("gate %q at the first tick", gate)
		}
		p.Kind = probe.Liveness
		add(t, g, "k", p)
		if err := g.Add("k", p); err == nil {
			t.Error("added twice")
		}
		source.want(t, "two probes", 0, 1, 0)
		source.set(worker.State{})
		wait(2 * time.Second)
		if gate := status(t, g, id).Gate; gate != "no status" {
			t.Errorf("gate %q after a new state", gate)
		}
		g.RemoveFunc("k", func(id group.ID[string]) bool { return id.Kind == probe.Liveness })
		source.want(t, "one probe", 0, 1, 0)
		g.Remove("k")
		source.want(t, "no probe", 0, 1, 1)
		id = add(t, g, "k", p)
		source.want(t, "again", 0, 2, 1)
		source.set(worker.State{Found: true, PodEnded: true})
		wait(2 * time.Second)
		source.want(t, "end of the task", 0, 2, 2)
		if _, ok := g.Status(id); ok {
			t.Error("the probe has not ended")
		}
	})
	bubble(t, "that is started again has no earlier state", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		store := new(silentPublisher)
		p := newProbe()
		p.Task = &worker.Task{Source: store}
		store.first = worker.Running("1", time.Now())
		add(t, g, "k", p)
		g.Remove("k")
		store.first = worker.State{} // the status was removed meanwhile
		if gate := status(t, g, add(t, g, "k", p)).Gate; gate != "no status" {
			t.Errorf("gate %q", gate)
		}
	})
	bubble(t, "that does not publish is called at each tick", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		source := &publisher{state: worker.Running("1", time.Now()), refuses: true}
		p := newProbe()
		p.Task = &worker.Task{Source: source}
		p.Spec.Period = time.Second
		id := add(t, g, "k", p)
		source.want(t, "first tick", 1, 1, 0)
		if s := status(t, g, id); s.Gate != "" || s.Last == nil {
			t.Errorf("gate %q, last %+v", s.Gate, s.Last)
		}
		g.Remove("k")
		source.want(t, "no probe", 1, 1, 0)
	})
}

// The status and the explanation of a probe show an attempt that does not end.
func TestOverdueAttemptIsExplained(t *testing.T) {
	bubble(t, "", group.Config{History: 1 << 20}, func(t *testing.T, g *group.Group[string]) {
		p := newProbe()
		release := make(chan struct{})
		p.Spec.Period = time.Second
		p.Handler = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
			<-release
			return probe.Outcome{Result: probe.Success}, nil
		})
		id := add(t, g, "checkout", p)
		for _, c := range []struct {
			after      time.Duration
			gate, text string
		}{
			{900 * ms, "", "no attempt yet"},
			{2100 * ms, "attempt under way for 3s", "the attempt under way for 3s does not heed its deadline: no other is made before it ends, and the result is failure"},
			{time.Hour, "attempt under way for 1h0m3s", "the attempt under way for 1h0m3s does not heed its deadline: no other is made before it ends, and the result is failure"},
		} {
			wait(c.after)
			x, _ := g.Explain(id)
			if x.Gate != c.gate || !strings.Contains(x.Summary, c.text) {
				t.Errorf("gate %q, %s", x.Gate, x.Summary)
			}
		}
		if s := status(t, g, id); s.Last == nil || !strings.Contains(s.Last.Error, "does not heed its deadline") {
			t.Errorf("last %+v", s.Last)
		}
		close(release)
		wait(2 * time.Second)
		if x, _ := g.Explain(id); x.Gate != "" || x.Decided != results.Success {
			t.Errorf("gate %q, decided %v: %s", x.Gate, x.Decided, x.Summary)
		}
	})
}
