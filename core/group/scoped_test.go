package group_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// scopedTask is a task "web" in a container-scoped group, with its probes.
type scopedTask struct {
	t     *testing.T
	g     *group.Group[string]
	task  *worker.Task
	start time.Time
}

// scoped runs a subtest with a container-scoped group that was just made.
func scoped(t *testing.T, name string, test func(t *testing.T, s *scopedTask)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, err := group.New[string](group.Config{ContainerScoped: true, Compat: probe.CompatLateStart})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(1234 * ms)
			test(t, &scopedTask{t, g, &worker.Task{Subject: results.Subject{Container: "web"}}, time.Now()})
			if err := g.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	})
}

// probe adds a probe with a period of 10 s.
func (s *scopedTask) probe(kind probe.Kind, delay time.Duration, steps ...probetest.Step) *probetest.Handler {
	s.t.Helper()
	h := probetest.NewHandler(steps...)
	add(s.t, s.g, "k", group.Probe{Task: s.task, Kind: kind, Handler: h, Spec: probe.Spec{InitialDelay: delay, Timeout: 9 * time.Second}})
	return h
}

// wantTimes checks when the attempts of h began.
func (s *scopedTask) wantTimes(h *probetest.Handler, want ...time.Duration) {
	s.t.Helper()
	var got []time.Duration
	for _, c := range h.Calls() {
		got = append(got, c.Start.Sub(s.start))
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("attempts at %v, want %v", got, want)
	}
}

func TestContainerScoped(t *testing.T) {
	const second = time.Second
	scoped(t, "schedule begins with the container", func(t *testing.T, s *scopedTask) {
		h := s.probe(probe.Readiness, 0)
		wait(7 * second)
		s.task.SetState(worker.Running("c1", time.Now()))
		wait(25 * second)
		s.wantTimes(h, 7*second, 17*second, 27*second)
	})
	scoped(t, "first attempt comes when the initial delay ends", func(t *testing.T, s *scopedTask) {
		short, long := s.probe(probe.Readiness, 3*second), s.probe(probe.Liveness, 25*second)
		wait(7 * second)
		s.task.SetState(worker.Running("c1", time.Now()))
		wait(45 * second)
		s.wantTimes(short, 10*second, 20*second, 30*second, 40*second, 50*second)
		s.wantTimes(long, 32*second, 42*second, 52*second)
	})
	scoped(t, "delay counts from the start of a container that is published later", func(t *testing.T, s *scopedTask) {
		h := s.probe(probe.Readiness, 5*second)
		wait(7 * second)
		s.task.SetState(worker.Running("c1", time.Now().Add(-2*second)))
		wait(4 * second)
		s.wantTimes(h, 10*second)
	})
	scoped(t, "liveness and readiness begin when the startup probe succeeds", func(t *testing.T, s *scopedTask) {
		startup, live, ready := s.probe(probe.Startup, 0), s.probe(probe.Liveness, 0), s.probe(probe.Readiness, 30*second)
		s.task.SetState(worker.Starting("c1", time.Now()))
		wait(13 * second)
		s.task.SetStarted("c1")
		wait(20 * second)
		s.wantTimes(startup, 0)
		s.wantTimes(live, 13*second, 23*second, 33*second)
		s.wantTimes(ready, 30*second)
	})
	scoped(t, "restart begins another schedule", func(t *testing.T, s *scopedTask) {
		h, live := s.probe(probe.Readiness, 0), s.probe(probe.Liveness, 0, probetest.Answer(probe.Failure, ""))
		s.task.SetState(worker.Running("c1", time.Now()))
		wait(13 * second)
		s.task.SetState(worker.Running("c2", time.Now()))
		wait(11 * second)
		s.task.SetState(worker.Stopped("c2"))
		wait(2 * second)
		s.task.SetState(worker.Running("c3", time.Now()))
		wait(11 * second)
		s.wantTimes(h, 0, 10*second, 13*second, 23*second, 26*second, 36*second)
		if live.Count() < 3 {
			t.Errorf("%d attempts of a liveness probe that was on hold", live.Count())
		}
	})
	scoped(t, "attempt for the container before is dropped", func(t *testing.T, s *scopedTask) {
		h := s.probe(probe.Readiness, 0, probetest.Hang(), probetest.Answer(probe.Success, ""))
		s.task.SetState(worker.Running("c1", time.Now()))
		wait(2 * second)
		s.task.SetState(worker.Running("c2", time.Now()))
		wait(11 * second)
		s.wantTimes(h, 0, 2*second, 12*second)
	})
	scoped(t, "probe of a container that runs already begins at once", func(t *testing.T, s *scopedTask) {
		s.task.SetState(worker.Running("c1", time.Now()))
		wait(3 * second)
		h := s.probe(probe.Readiness, 0)
		wait(10 * second)
		s.wantTimes(h, 3*second, 13*second)
	})
	scoped(t, "description that is replaced follows the task", func(t *testing.T, s *scopedTask) {
		h := s.probe(probe.Readiness, 0)
		s.task.SetState(worker.Running("c1", time.Now()))
		wait(3 * second)
		next := &worker.Task{Subject: s.task.Subject}
		next.SetState(s.task.State())
		_, now, _ := seam.Reveal(s.g).Current(group.ID[string]{Key: "k", Task: "web", Kind: probe.Readiness})
		seam.Reveal(s.g).Reshape(now, next)
		wait(second)
		next.SetState(worker.Running("c2", time.Now()))
		wait(11 * second)
		s.wantTimes(h, 0, 4*second, 14*second)
	})
	scoped(t, "first attempts of tasks that ran before the group are spread", func(t *testing.T, s *scopedTask) {
		var first []time.Time
		for range 20 {
			task := &worker.Task{Subject: results.Subject{Container: "web"}}
			task.SetState(worker.Running(time.Now().String(), time.Now().Add(-time.Hour)))
			var times list[time.Time]
			h := probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
				times.add(time.Now())
				return probe.Outcome{Result: probe.Success}, nil
			})
			if err := s.g.Add(task.State().ContainerID, group.Probe{Task: task, Handler: h}); err != nil {
				t.Fatal(err)
			}
			wait(10 * ms)
			if all := times.get(); len(all) > 0 {
				first = append(first, all[0])
			}
		}
		if len(first) == 20 {
			t.Error("all first attempts came at once")
		}
	})
}
