package group_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

func answering(r probe.Result) probe.Handler {
	return probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
		return probe.Outcome{Result: r}, nil
	})
}

// taskProbe returns a probe of a task of pod that has the result r every second.
func taskProbe(pod, containerID string, kind probe.Kind, r probe.Result) group.Probe {
	p := group.Probe{Task: &worker.Task{Subject: results.Subject{Pod: pod, Container: "web"}}, Kind: kind, Handler: answering(r)}
	p.Spec = probe.Spec{Period: time.Second, FailureThreshold: 1}
	p.Task.NoRestart = true
	if containerID != "" {
		p.Task.SetState(worker.Running(containerID, time.Now()))
	}
	return p
}

func TestAddRefusesContainerIDInUse(t *testing.T) {
	for _, kind := range []probe.Kind{probe.Liveness, probe.Readiness} {
		bubble(t, "by a readiness probe, for "+kind.String(), group.Config{}, func(t *testing.T, g *group.Group[string]) {
			first := add(t, g, "a", taskProbe("a", "same", probe.Readiness, probe.Success))
			h := newReleaser(succeed)
			second := taskProbe("b", "same", kind, probe.Failure)
			second.Handler = h
			for name, err := range map[string]error{"Add": g.Add("b", second), "Update": g.Update("b", second)} {
				want := fmt.Sprintf(`key b, task "web", %s: container ID "same" is in use by a/web`, kind)
				if err == nil || err.Error() != want {
					t.Errorf("%s returned\n%v, want\n%s", name, err, want)
				}
			}
			h.wantReleased(t, "refused", 0)
			wait(5 * time.Second)
			if s := status(t, g, first); s.Decided != results.Success {
				t.Errorf("first: %v", s.Decided)
			}
			g.Remove("a")
			id := add(t, g, "b", second)
			if s := status(t, g, id); s.Decided != results.Success || s.Gate != "" {
				t.Errorf("second, alone: %v, gate %q", s.Decided, s.Gate)
			}
		})
	}
}

// A task that gets an ID claimed by another task is gated until that task leaves. It shows none of that
// task's results.
func TestContainerIDInUseGatesProbe(t *testing.T) {
	for name, leave := range map[string]func(*group.Group[string], *worker.Task){
		"removed":           func(g *group.Group[string], _ *worker.Task) { g.Remove("a") },
		"another container": func(_ *group.Group[string], a *worker.Task) { a.SetState(worker.Running("a2", time.Now())) },
		"ended":             func(_ *group.Group[string], a *worker.Task) { a.SetState(worker.State{Found: true, PodEnded: true}) },
	} {
		log := new(gateLog)
		bubble(t, "until the other is "+name, group.Config{Observers: []worker.Observer{log}}, func(t *testing.T, g *group.Group[string]) {
			a, b := taskProbe("a", "same", probe.Readiness, probe.Success), taskProbe("b", "b1", probe.Readiness, probe.Failure)
			b.Task.PriorID = "same"
			first, second := add(t, g, "a", a), add(t, g, "b", b)
			b.Task.SetState(worker.Running("same", time.Now()))
			wait(5 * time.Second)
			if s := status(t, g, second); s.Gate != "container ID in use by a/web" || s.Decided != results.Failure || s.ContainerID != "" {
				t.Errorf("second: gate %q, decided %v of %q", s.Gate, s.Decided, s.ContainerID)
			}
			if got := log.take(); !slices.Equal(got, []worker.Gate{worker.InUse}) {
				t.Errorf("observed %v", got)
			}
			if s := status(t, g, first); s.Decided != results.Success || s.Gate != "" {
				t.Errorf("first: %v, gate %q", s.Decided, s.Gate)
			}
			if r, _ := g.Results(probe.Readiness).Get("b1"); r != results.Unknown {
				t.Errorf("the result of the old container is left: %v", r)
			}
			leave(g, a.Task)
			wait(2 * time.Second)
			if s := status(t, g, second); s.Gate != "" || s.Decided != results.Failure || s.ContainerID != "same" || s.Last == nil {
				t.Errorf("second, alone: gate %q, decided %v of %q", s.Gate, s.Decided, s.ContainerID)
			}
		})
	}
	bubble(t, "ends with its pod", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		b := taskProbe("b", "", probe.Readiness, probe.Failure)
		add(t, g, "a", taskProbe("a", "same", probe.Readiness, probe.Success))
		id := add(t, g, "b", b)
		b.Task.SetState(worker.Running("same", time.Now()))
		wait(2 * time.Second)
		b.Task.SetState(worker.State{Found: true, ContainerID: "same", Final: true})
		wait(2 * time.Second)
		if g.Has(id) {
			t.Error("the probe of a task that has ended is left")
		}
		if r, _ := g.Results(probe.Readiness).Get("same"); r != results.Success {
			t.Errorf("the first is %v", r)
		}
	})
}

// The probes of one task share its ID, even if they were added with two descriptions of the task.
func TestProbesOfOneTaskShareContainerID(t *testing.T) {
	bubble(t, "two Tasks of one name", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		ids := make(map[probe.Kind]group.ID[string])
		for _, kind := range []probe.Kind{probe.Readiness, probe.Liveness} {
			ids[kind] = add(t, g, "a", taskProbe("a", "c1", kind, probe.Success))
		}
		for range 3 { // each is reshaped to a new description
			for _, id := range ids {
				_, now, _ := seam.Reveal(g).Current(id)
				next := taskProbe("a", "c1", id.Kind, probe.Success).Task
				next.Source = nil
				seam.Reveal(g).Reshape(now, next)
			}
			wait(2 * time.Second)
		}
		g.Remove("a")
		add(t, g, "a", taskProbe("a", "c1", probe.Readiness, probe.Success))
		ids[probe.Liveness] = add(t, g, "a", taskProbe("a", "c1", probe.Liveness, probe.Success))
		for _, id := range ids {
			if s := status(t, g, id); s.Gate != "" || s.Decided != results.Success || s.ContainerID != "c1" {
				t.Errorf("%v: gate %q, decided %v of %q", id, s.Gate, s.Decided, s.ContainerID)
			}
		}
	})
	bubble(t, "results of the caller do not keep a task out", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		cache := g.Results(probe.Readiness)
		cache.Set("c1", results.Failure, &results.Subject{Pod: "restored"}, results.Cause{Reason: results.Restored})
		id := add(t, g, "a", taskProbe("a", "c1", probe.Readiness, probe.Success))
		if s := status(t, g, id); s.Decided != results.Success {
			t.Errorf("decided %v, gate %q", s.Decided, s.Gate)
		}
		cache.Remove("c1")
		if err := g.Add("b", taskProbe("b", "c1", probe.Readiness, probe.Success)); err == nil {
			t.Error("the ID of a probe whose result was removed is free")
		}
	})
}

// TestContainerIDsModel changes the IDs of tasks at random. The handler of each task always has the same
// result, so results of another task are detected.
func TestContainerIDsModel(t *testing.T) {
	for seed := range uint64(60) {
		bubble(t, fmt.Sprint(seed), group.Config{}, func(t *testing.T, g *group.Group[string]) {
			r := rand.New(rand.NewPCG(seed, 1))
			tasks := make(map[string]*worker.Task)
			answers := map[string]probe.Result{"0": probe.Success, "1": probe.Failure, "2": probe.Success, "3": probe.Failure}
			for range 60 {
				key, id := fmt.Sprint(r.IntN(4)), fmt.Sprint("c", r.IntN(3))
				switch r.IntN(6) {
				case 0, 1:
					p := taskProbe(key, id, probe.Kinds[r.IntN(2)], answers[key])
					if old := tasks[key]; old != nil && len(g.IDs()) > 0 && r.IntN(2) == 0 {
						p.Task = old
					} else if old != nil {
						p.Task.SetState(old.State())
					}
					if g.Add(key, p) == nil {
						tasks[key] = p.Task
					}
				case 2:
					g.Remove(key)
					delete(tasks, key)
				case 3:
					for gid := range g.All() {
						if now, ok := g.Current(gid); ok && gid.Key == key {
							now.Task.SetState(worker.Running(id, time.Now()))
						}
					}
				default:
					wait(time.Duration(r.IntN(3000)) * time.Millisecond)
				}
			}
			wait(3 * time.Second)
			checkOwners(t, g, answers)
		})
	}
}

// checkOwners checks that no two tasks own one ID, that tasks without an ID are gated, and that every
// result comes from the task's own handler.
func checkOwners(t *testing.T, g *group.Group[string], answers map[string]probe.Result) {
	t.Helper()
	synctest.Wait()
	owners := make(map[string]string)
	all := maps.Collect(g.All())
	for id, s := range all {
		if s.ContainerID == "" {
			continue
		}
		if other, ok := owners[s.ContainerID]; ok && other != id.Key {
			t.Errorf("%s is the ID of %s and %s", s.ContainerID, other, id.Key)
		}
		owners[s.ContainerID] = id.Key
		if want := map[probe.Result]results.Result{probe.Success: results.Success, probe.Failure: results.Failure}[answers[id.Key]]; s.Decided != want {
			t.Errorf("%v: decided %v, answers %v, gate %q", id, s.Decided, answers[id.Key], s.Gate)
		}
	}
	for id, s := range all {
		now, _ := g.Current(id)
		if free := owners[now.Task.State().ContainerID] == ""; s.ContainerID == "" && (free || !strings.HasPrefix(s.Gate, "container ID in use by ")) {
			t.Errorf("%v has no ID, though %s is free: %v; gate %q", id, now.Task.State().ContainerID, free, s.Gate)
		}
	}
}
