package manager_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// outside is a status source for containers that are not restarted.
type outside struct {
	*manager.StatusStore
}

var _ manager.RestartSource = outside{}

// Restarts implements [manager.RestartSource].
func (outside) Restarts(_ *v1.Pod, c *v1.Container) bool { return len(c.Command) > 0 }

func TestRestartSource(t *testing.T) {
	for _, kind := range []probe.Kind{probe.Liveness, probe.Startup} {
		bubble(t, kind.String(), func(t *testing.T) {
			r := newRig(t, herd, func(cfg *manager.Config) {
				cfg.Status = outside{cfg.Status.(*manager.StatusStore)}
			})
			handlers := []*probetest.Handler{}
			r.handle = func(string, []byte) (*probetest.Handler, error) {
				handlers = append(handlers, probetest.NewHandler(failure))
				return handlers[len(handlers)-1], nil
			}
			pod := podOf("u", container("ours", kind), container("theirs", kind))
			pod.Spec.Containers[0].Command = []string{"serve"}
			r.store.SetPodStatus(pod, statusOf(upFor(kind, "ours", "c1"), upFor(kind, "theirs", "c2")))
			r.add(pod)
			r.wait(3 * time.Second)
			r.wantCached(kind, "c1", results.Failure)
			r.wantCached(kind, "c2", results.Failure)
			if p := r.status("u", "theirs", kind); p.OnHold || p.Run != 4 {
				t.Errorf("on hold %v, run %d; want a run of 4 failures", p.OnHold, p.Run)
			}
			for _, h := range handlers {
				h.Then(success)
			}
			r.wait(time.Second)
			r.wantCached(kind, "c1", results.Failure) // on hold until the container is restarted
			r.wantCached(kind, "c2", results.Success)

			// Restarts is called again for a changed pod.
			pod.Spec.Containers[1].Command = []string{"serve"}
			r.update(pod)
			for _, h := range handlers {
				h.Then(failure)
			}
			r.wait(time.Second)
			if p := r.status("u", "theirs", kind); !p.OnHold {
				t.Error("a container that is restarted is probed on after its failure")
			}
		})
	}
}
