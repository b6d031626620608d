package group_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// keyedUpdates records updates with their keys, as lines.
type keyedUpdates struct {
	mu    sync.Mutex
	lines []string
}

func follow[K comparable](ctx context.Context, g *group.Group[K], initial bool) *keyedUpdates {
	u := new(keyedUpdates)
	all := g.Subscribe(ctx)
	go func() {
		for key, update := range all {
			if !initial && update.Reason == results.Initial && update.Result == results.Failure {
				continue // merged if the reader is slow
			}
			u.mu.Lock()
			u.lines = append(u.lines, fmt.Sprint(key, " ", update.Container, " ", update.Kind, " ", update.Result, " ", update.Removed, " ", update.Output))
			u.mu.Unlock()
		}
	}()
	return u
}

// take returns the lines since the last call, sorted.
func (u *keyedUpdates) take() []string {
	synctest.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	all := u.lines
	u.lines = nil
	slices.Sort(all)
	return all
}

func wantLines(t *testing.T, u *keyedUpdates, want ...string) {
	t.Helper()
	if got := u.take(); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// An update has the key of its probe, even if the subjects of two tasks are equal, the probe has been
// removed, a task has two descriptions, or two groups share their caches.
func TestSubscribeHasKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type machine struct{ rack, number int }
		shared := results.New(probe.Readiness)
		g, err := group.New[machine](group.Config{Readiness: shared})
		if err != nil {
			t.Fatal(err)
		}
		other, err := group.New[string](group.Config{Readiness: shared})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		updates, others := follow(ctx, g, false), follow(ctx, other, false)
		task := func(id string) *worker.Task {
			next := &worker.Task{Subject: results.Subject{Container: "bmc"}}
			next.SetState(worker.Running(id, time.Now()))
			return next
		}
		one, two := machine{1, 1}, machine{1, 2}
		for key, id := range map[machine]string{one: "a", two: "b"} {
			if err := g.Add(key, group.Probe{Task: task(id), Kind: probe.Readiness, Handler: succeed}); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.Add(one, group.Probe{Task: task("a"), Kind: probe.Liveness, Handler: succeed}); err != nil {
			t.Fatal(err)
		}
		if err := other.Add("x", group.Probe{Task: task("c"), Kind: probe.Readiness, Handler: succeed}); err != nil {
			t.Fatal(err)
		}
		shared.Set("d", results.Success, nil, results.Cause{}) // belongs to no probe
		time.Sleep(20 * time.Second)
		wantLines(t, updates, "{1 1} bmc liveness Success false ", "{1 1} bmc readiness Success false ", "{1 2} bmc readiness Success false ")
		wantLines(t, others, "x bmc readiness Success false ")
		g.Remove(one)
		if err := g.Add(one, group.Probe{Task: task("e"), Kind: probe.Readiness, Handler: succeed}); err != nil {
			t.Fatal(err)
		}
		wantLines(t, updates, "{1 1} bmc liveness Success true ", "{1 1} bmc readiness Success false ", "{1 1} bmc readiness Success true ")
		for _, end := range []func(context.Context) error{g.Shutdown, other.Shutdown} {
			if err := end(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// A container that fails from the start is reported when attempts have decided it, although its initial
// result is Failure too.
func TestFirstFailureIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		compat probe.Compat
		kind   probe.Kind
		result probe.Result
		want   []string // after the initial result
	}{
		"readiness fails":                {0, probe.Readiness, probe.Failure, []string{"k web readiness Failure false down"}},
		"readiness fails, as in kubelet": {probe.CompatInitialFailure, probe.Readiness, probe.Failure, nil},
		"readiness succeeds":             {0, probe.Readiness, probe.Success, []string{"k web readiness Success false down"}},
		"liveness succeeds":              {0, probe.Liveness, probe.Success, nil},
		"liveness fails":                 {0, probe.Liveness, probe.Failure, []string{"k web liveness Failure false down"}},
	} {
		bubble(t, name, group.Config{Compat: c.compat, Observers: []worker.Observer{observerFunc(func(worker.Info) worker.ProbeObserver {
			return &changes{t: t, want: len(c.want)}
		})}}, func(t *testing.T, g *group.Group[string]) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			updates := follow(ctx, g, true)
			p := newProbe()
			p.Kind, p.Spec.Period = c.kind, time.Minute
			release := make(chan struct{})
			p.Handler = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
				<-release
				return probe.Outcome{Result: c.result, Output: "down"}, nil
			})
			add(t, g, "k", p)
			time.Sleep(30 * time.Second)
			if got := updates.take(); len(got) != 1 {
				t.Errorf("at first: %q", got)
			}
			close(release)
			time.Sleep(time.Hour)
			wantLines(t, updates, c.want...)
			g.Remove("k")
			synctest.Wait()
		})
	}
}

// changes counts the ticks that changed the decided result.
type changes struct {
	t         *testing.T
	got, want int
}

func (c *changes) Tick(tick *worker.Tick) {
	if tick.Changed() {
		c.got++
	}
	if stays := tick.Before == results.Failure && tick.After == results.Failure; tick.First && !stays || tick.Changed() && stays && !tick.First {
		c.t.Errorf("First is %t: %+v", tick.First, tick)
	}
}
func (c *changes) Skipped(worker.SkipReason, int) {}

func (c *changes) Close() {
	if c.got != c.want {
		c.t.Errorf("%d ticks have changed the result, want %d", c.got, c.want)
	}
}
