package group_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/google/go-cmp/cmp"
)

// TestEmbedder runs a program with two services, which uses no field of Kubernetes.
func TestEmbedder(t *testing.T) {
	bubble(t, "services", group.Config{History: 1 << 20}, func(t *testing.T, g *group.Group[string]) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen := subscribe(ctx, g)
		var broken atomic.Bool
		var asked list[probe.Request]
		handler := newReleaser(func(_ context.Context, req probe.Request) (probe.Outcome, error) {
			asked.add(req)
			if broken.Load() {
				return probe.Outcome{Result: probe.Failure, Output: "503", Reason: probe.ReasonHTTPStatus}, nil
			}
			return probe.Outcome{Result: probe.Success, Output: "200"}, nil
		})
		task := &worker.Task{}
		p := group.Probe{Task: task, Kind: probe.Readiness, Handler: handler, Spec: probe.Spec{Period: time.Second, FailureThreshold: 2}}
		id := add(t, g, "checkout", p)
		if handler.calls.Load() != 0 || status(t, g, id).Gate != "no status" {
			t.Error("probed before the task has a state")
		}

		task.SetState(worker.Running("checkout-1", time.Now()))
		wait(time.Second)
		if requests := asked.get(); len(requests) != 1 || requests[0].ContainerID != "checkout-1" || requests[0].Pod == nil || requests[0].Container == nil {
			t.Errorf("requests %+v", requests)
		}
		want := []results.Update{
			{Kind: probe.Readiness, ContainerID: "checkout-1", Result: results.Failure, Cause: results.Cause{Reason: results.Initial}},
			{Kind: probe.Readiness, ContainerID: "checkout-1", Result: results.Success, Cause: results.Cause{Output: "200"}},
		}
		checkUpdates(t, seen.take(), want[len(want)-1:], want)

		broken.Store(true)
		before := time.Now()
		wait(2 * time.Second)
		got := seen.take()
		if len(got) == 1 && (got[0].Time.Before(before.Add(time.Second)) || got[0].Time.After(time.Now())) {
			t.Errorf("decided %v after the first failure was possible", got[0].Time.Sub(before))
		}
		checkUpdates(t, got, []results.Update{{
			Kind: probe.Readiness, ContainerID: "checkout-1", Result: results.Failure, Cause: results.Cause{Reason: results.Reason(probe.ReasonHTTPStatus), Output: "503"},
		}})
		wait(5 * time.Second) // equal results send no update
		checkUpdates(t, seen.take(), nil)

		broken.Store(false)
		task.SetState(worker.Running("checkout-2", time.Now()))
		wait(time.Second)
		got = seen.take()
		if n := len(got); n < 2 || !slices.ContainsFunc(got, func(u results.Update) bool { return u.Removed && u.ContainerID == "checkout-1" }) ||
			!slices.ContainsFunc(got, func(u results.Update) bool { return u.ContainerID == "checkout-2" && u.Result == results.Success }) {
			t.Errorf("a new run: updates %+v", got)
		}

		if err := g.Pause(id); err != nil {
			t.Fatal(err)
		}
		calls := handler.calls.Load()
		wait(10 * time.Second)
		if s := status(t, g, id); s.Gate != "paused" || !s.Paused || !s.Next.IsZero() || s.Decided != results.Success || handler.calls.Load() != calls {
			t.Errorf("paused: %+v", s.Status)
		}
		if err := g.Resume(id); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := g.Trigger(id); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := handler.calls.Load() - calls; got != 2 {
			t.Errorf("%d attempts after Resume and Trigger", got)
		}
		if s := status(t, g, id); time.Until(s.Next) != time.Second || len(s.History) != 11 || s.Last.Output != "200" {
			t.Errorf("next in %v, %d ticks in the history, last %+v", time.Until(s.Next), len(s.History), s.Last)
		}

		seen.take()
		g.Remove("checkout")
		handler.wantReleased(t, "Remove", 1)
		checkUpdates(t, seen.take(), []results.Update{
			{Kind: probe.Readiness, ContainerID: "checkout-2", Result: results.Success, Removed: true, Cause: results.Cause{Output: "200"}},
		})
		wait(5 * time.Second)
		if _, ok := g.Status(id); ok || handler.calls.Load() != calls+2 {
			t.Error("probed after Remove")
		}
		if err := g.Trigger(id); !errors.Is(err, group.ErrNotFound) {
			t.Errorf("Trigger of a removed probe: %v", err)
		}
	})
}

// checkUpdates compares updates, without their times, with several alternative lists.
func checkUpdates(t *testing.T, got []results.Update, wants ...[]results.Update) {
	t.Helper()
	for i := range got {
		got[i].Time = time.Time{}
	}
	for _, want := range wants {
		if slices.Equal(got, want) {
			return
		}
	}
	t.Errorf("updates (-want +got):\n%s", cmp.Diff(wants[len(wants)-1], got))
}

func TestListings(t *testing.T) {
	bubble(t, "have every probe", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		var want []string
		for i := range 5 {
			for _, kind := range probe.Kinds[:2] {
				p := newProbe()
				p.Kind = kind
				p.Task.Subject.Pod = fmt.Sprint("service-", i)
				p.Task.SetState(worker.Running(fmt.Sprint("run-", i), time.Now()))
				want = append(want, add(t, g, fmt.Sprint("service-", i), p).String())
			}
		}
		slices.Sort(want)
		var got []string
		for id, s := range g.All() {
			got = append(got, id.String())
			if s.Info.Kind != id.Kind || s.Info.Pod != id.Key || s.Decided != results.Success {
				t.Errorf("%v has the status %+v", id, s)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		for range g.All() {
			break // an iteration of All can stop early
		}
		if n := len(g.Keys()); n != 5 {
			t.Errorf("%d keys", n)
		}
		if infos := g.Infos(func(i *worker.Info) bool { return i.Kind == probe.Liveness && i.Pod != "service-3" }); len(infos) != 4 {
			t.Errorf("Infos returned %+v", infos)
		}
		if infos := g.InfosOf("service-3", func(i *worker.Info) bool { return i.Kind == probe.Liveness }); len(infos) != 1 || infos[0].Pod != "service-3" {
			t.Errorf("InfosOf returned %+v", infos)
		}
		g.RemoveFunc("service-1", func(id group.ID[string]) bool { return id.Kind == probe.Liveness })
		if g.Has(group.ID[string]{Key: "service-1", Task: "web", Kind: probe.Liveness}) ||
			!g.Has(group.ID[string]{Key: "service-1", Task: "web", Kind: probe.Readiness}) {
			t.Error("RemoveFunc removed something else")
		}
	})
}

func TestEnd(t *testing.T) {
	bubble(t, "of the task ends its probes, which can be added again", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		p := newProbe()
		h := newReleaser(succeed)
		p.Handler = h
		p.Spec.Period = time.Second
		id := add(t, g, "job", p)
		p.Task.SetState(worker.State{Found: true, PodEnded: true})
		wait(time.Second)
		if _, ok := g.Status(id); ok || len(g.Keys()) != 0 {
			t.Error("the probe of an ended task is still there")
		}
		h.wantReleased(t, "end of the task", 1)
		again := newProbe()
		add(t, g, "job", again)
		if s := status(t, g, id); s.Decided != results.Success {
			t.Errorf("decided %v", s.Decided)
		}
	})
	bubble(t, "of a new task with another name leaves the first one", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		first, second := newProbe(), newProbe()
		second.Task.Subject.Container = "db"
		second.Task.SetState(worker.Running("checkout/db/1", time.Now()))
		second.Spec.Period = time.Second
		id := add(t, g, "pair", first)
		add(t, g, "pair", second)
		second.Task.SetState(worker.State{Found: true, PodEnded: true})
		wait(time.Second)
		count := 0
		for got := range g.All() {
			if count++; got != id {
				t.Errorf("left is %v", got)
			}
		}
		if count != 1 {
			t.Errorf("%d probes left", count)
		}
	})
}

func TestRelease(t *testing.T) {
	bubble(t, "is called once for each handler", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		a, b, c := newReleaser(succeed), newReleaser(succeed), newReleaser(succeed)
		p := newProbe()
		p.Handler = a
		id := add(t, g, "k", p)
		if err := g.Add("k", p); !errors.Is(err, group.ErrExists) {
			t.Fatal(err)
		}
		a.wantReleased(t, "Add of a probe that exists", 0)
		update := func(h probe.Handler) {
			t.Helper()
			p.Handler = h
			if err := g.Update("k", p); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		p.Spec.Period = time.Minute
		update(a)
		a.wantReleased(t, "Update with the same handler", 0)
		update(b)
		a.wantReleased(t, "Update with another handler", 1)
		b.wantReleased(t, "Update to it", 0)

		replace := seam.Reveal(g).Replace
		_, was, _ := seam.Reveal(g).Current(id)
		p.Handler = c
		if !replace(was, p, seam.Keep{}) {
			t.Fatal("Replace did nothing")
		}
		if replace(was, p, seam.Keep{}) {
			t.Error("Replace of a probe that was changed")
		}
		b.wantReleased(t, "Replace, whose caller releases it", 0)
		c.wantReleased(t, "Replace that does nothing", 0)
		g.Remove("k")
		g.Remove("k")
		if replace(was, p, seam.Keep{}) {
			t.Error("Replace of a probe that was removed")
		}
		a.wantReleased(t, "Remove, first handler", 1)
		b.wantReleased(t, "Remove, second handler", 0)
		c.wantReleased(t, "Remove twice", 1)
	})
	bubble(t, "of a handler that two probes share is called for each", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		h := newReleaser(succeed)
		p, q := newProbe(), newProbe()
		p.Handler, q.Handler = h, h
		q.Task.SetState(worker.Running("cart", time.Now()))
		add(t, g, "checkout", p)
		add(t, g, "cart", q)
		g.Remove("checkout")
		h.wantReleased(t, "first Remove", 1)
		if err := g.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.wantReleased(t, "Shutdown", 2)
	})
	bubble(t, "comes at once though an attempt is under way", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		h := newReleaser(func(context.Context, probe.Request) (probe.Outcome, error) {
			time.Sleep(time.Minute)
			return probe.Outcome{}, nil
		})
		p := newProbe()
		p.Handler = h
		add(t, g, "k", p)
		g.Remove("k")
		h.wantReleased(t, "Remove", 1)
		wait(2 * time.Minute)
		h.wantReleased(t, "end of the attempt", 1)
	})
	bubble(t, "is not called for a handler that a closed group refuses", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		if err := g.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		h := newReleaser(succeed)
		p := newProbe()
		p.Handler = h
		if err := g.Add("k", p); !errors.Is(err, group.ErrClosed) {
			t.Errorf("Add: %v", err)
		}
		if err := g.Update("k", p); !errors.Is(err, group.ErrClosed) {
			t.Errorf("Update: %v", err)
		}
		h.wantReleased(t, "refused", 0)
	})
}

func TestUpdate(t *testing.T) {
	bubble(t, "keeps the run of equal results of the same handler and target", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		p := newProbe()
		p.Handler, p.Spec = newReleaser(succeed), probe.Spec{Period: time.Second, SuccessThreshold: 10}
		id := add(t, g, "k", p)
		wait(2 * time.Second)
		run := func(step string, want int) {
			t.Helper()
			if err := g.Update("k", p); err != nil {
				t.Fatal(err)
			}
			if got := status(t, g, id).Run; got != want {
				t.Errorf("%s: run of %d, want %d", step, got, want)
			}
		}
		run("the same probe", 3)
		p.Spec.FailureThreshold = 7
		run("another threshold", 3)
		p.Target = probe.Target{Host: "10.0.0.7", Port: 80}
		run("another target", 0)
		wait(2 * time.Second)
		run("the same probe again", 2)
		p.Handler = newReleaser(succeed)
		run("another handler", 0)
		wait(2 * time.Second)
		p.Handler = succeed
		run("a function", 0)
		wait(2 * time.Second)
		run("the same function, which cannot be compared", 0)
	})
	bubble(t, "to the same probe at every sync leaves the attempt under way", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		p := newProbe()
		h := newReleaser(func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
			select {
			case <-time.After(1500 * ms):
			case <-ctx.Done():
			}
			return probe.Outcome{Result: probe.Failure}, nil
		})
		p.Handler, p.Kind, p.Spec = h, probe.Liveness, probe.Spec{Period: 2 * time.Second, Timeout: 2 * time.Second}
		id := add(t, g, "k", p)
		for range 10 {
			if err := g.Update("k", p); err != nil {
				t.Fatal(err)
			}
			wait(time.Second)
		}
		if s := status(t, g, id); s.Decided != results.Failure || h.calls.Load() != 3 {
			t.Errorf("decided %v after %d attempts", s.Decided, h.calls.Load())
		}
		h.wantReleased(t, "Update", 0)
	})
	bubble(t, "keeps a pause of the caller unless Paused is another one", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		p := newProbe()
		id := add(t, g, "k", p)
		paused := func(step string, want bool) {
			t.Helper()
			if s := status(t, g, id); s.Paused != want {
				t.Errorf("%s: paused %v", step, s.Paused)
			}
		}
		update := func() {
			t.Helper()
			if err := g.Update("k", p); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.Pause(id); err != nil {
			t.Fatal(err)
		}
		update()
		paused("Update with the same Paused", true)
		p.Paused = true
		update()
		paused("Update to Paused", true)
		p.Paused = false
		update()
		paused("Update to not Paused", false)
	})
	bubble(t, "cancels the attempt under way, and begins another one", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		p := newProbe()
		p.Handler = probe.HandlerFunc(func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
			<-ctx.Done()
			return probe.Outcome{Result: probe.Success}, nil
		})
		p.Spec = probe.Spec{Period: time.Second, Timeout: -1}
		id := add(t, g, "k", p)
		p.Handler = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
			return probe.Outcome{Result: probe.Warning}, nil
		})
		p.Spec.Period = time.Hour
		if err := g.Update("k", p); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := status(t, g, id); s.Last == nil || s.Last.Result != probe.Warning || s.Run != 1 {
			t.Errorf("counted: %+v, decided %v", s.Last, s.Decided)
		}
	})
	bubble(t, "has the tag of the last change", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		p := newProbe()
		p.Tag = 1
		id := add(t, g, "k", p)
		p.Tag = 2
		if err := g.Update("k", p); err != nil {
			t.Fatal(err)
		}
		if now, ok := g.Current(id); !ok || now.Tag != 2 || now.Task != p.Task {
			t.Errorf("got %v, %v", now.Tag, ok)
		}
	})
}

// TestFirstTicks checks that the first ticks in a young group are spread, and in an older group
// immediate.
func TestFirstTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := group.New[string](group.Config{})
		if err != nil {
			t.Fatal(err)
		}
		start, first := time.Now(), make(map[string]*list[time.Duration])
		p := func(key string) group.Probe {
			p, at := newProbe(), new(list[time.Duration])
			first[key] = at
			began := start
			p.Task.SetState(worker.Running(key, start))
			p.Spec.Period = 10 * time.Second
			p.Handler = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
				at.add(time.Since(began))
				return probe.Outcome{Result: probe.Success}, nil
			})
			return p
		}
		for i := range 20 {
			add(t, g, fmt.Sprint(i), p(fmt.Sprint(i)))
			wait(1)
		}
		wait(10 * time.Second)
		early := 0
		for key, all := range first {
			at := all.get()
			if len(at) == 0 || at[0] > 10*time.Second {
				t.Fatalf("%s began after %v", key, at)
			}
			if at[0] < 2*time.Second {
				early++
			}
		}
		if len(first) != 20 || early > 15 {
			t.Errorf("%d of %d probes began in the first 2 s", early, len(first))
		}
		start = time.Now()
		add(t, g, "late", p("late"))
		wait(25 * time.Second)
		if at := first["late"].get(); len(at) < 3 || at[0] != 0 || at[1] > 10*time.Second+1 || at[2]-at[1] != 10*time.Second {
			t.Errorf("late probe at %v", at)
		}
		if err := g.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
