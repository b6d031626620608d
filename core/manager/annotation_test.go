package manager_test

import (
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

const at = `metadata.annotations[prober.dev/probes]`

func TestAnnotationRuns(t *testing.T) {
	bubble(t, "period below a second is exact, and target has the IP of the pod", func(t *testing.T) {
		r := newRig(t, compat(manager.Compat(probe.CompatHerd)))
		h := r.always(probetest.NewHandler())
		pod := annotated("web: {readiness: {plugin: {name: redis, target: {port: redis}, config: {a: 1}}, period: 130ms, timeout: 70ms}}")
		r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
		r.add(pod)
		start := time.Now()
		r.wait(1300 * ms)
		calls := h.Calls()
		if len(calls) != 11 {
			t.Fatalf("%d attempts, want 11", len(calls))
		}
		for i, c := range calls {
			if at := c.Start.Sub(start); at != time.Duration(i)*130*ms || c.Timeout != 70*ms {
				t.Errorf("attempt %d at %v with %v", i, at, c.Timeout)
			}
		}
		if got := calls[0].Request.Target; got != (probe.Target{Host: "10.0.0.1", Port: 6379}) {
			t.Errorf("target %+v", got)
		}
		if p := r.preparations(); len(p) != 1 || p[0].name != "redis" || p[0].config != `{"a":1}` || p[0].target != (probe.Target{Port: 6379}) {
			t.Errorf("prepared: %+v", p)
		}
		r.wantCached(probe.Readiness, "c1", results.Success)
	})
	bubble(t, "target with a host", func(t *testing.T) {
		r := newRig(t)
		h := r.always(probetest.NewHandler())
		pod := annotated("web: {readiness: {plugin: {name: x, target: {host: db, port: 5432}}}}")
		r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
		r.add(pod)
		if got := h.Calls()[0].Request.Target; got != (probe.Target{Host: "db", Port: 5432}) {
			t.Errorf("target %+v", got)
		}
	})
	bubble(t, "probe that starts paused keeps its initial result", func(t *testing.T) {
		r := newRig(t)
		h := r.always(probetest.NewHandler())
		pod := annotated("web: {liveness: {plugin: {name: x}, paused: true}}")
		r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
		r.add(pod)
		r.wait(time.Minute)
		if h.Count() != 0 || !r.status("uid", "web", probe.Liveness).Paused {
			t.Errorf("%d attempts", h.Count())
		}
		r.wantCached(probe.Liveness, "c1", results.Success)
	})
	bubble(t, "AddPod returns the error of one probe and starts the others", func(t *testing.T) {
		r := newRig(t)
		pod := annotated("web: {liveness: {plugin: {name: x}}, readiness: {plugin: {name: x}, perod: 1s}}")
		err := r.m.AddPod(t.Context(), pod)
		if err == nil || !strings.Contains(err.Error(), at+"[web].readiness.perod") {
			t.Errorf("got %v", err)
		}
		r.wantKeys("uid/web/liveness")
	})
}
