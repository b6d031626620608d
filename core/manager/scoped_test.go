package manager_test

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

func TestContainerScopedProbes(t *testing.T) {
	bubble(t, "probes begin with their container, and after its start", func(t *testing.T) {
		r := newYoungRig(t, func(cfg *manager.Config) { cfg.ContainerScoped = true })
		handlers := make(map[string]*probetest.Handler)
		r.handle = func(_ string, config []byte) (*probetest.Handler, error) {
			h := probetest.NewHandler(success)
			if string(config) == `{"command":["startup"]}` {
				h = probetest.NewHandler(success.After(2 * time.Second))
			}
			handlers[string(config)] = h
			return h, nil
		}
		c := container("web", probe.Startup, probe.Readiness, probe.Liveness)
		for command, p := range map[string]**v1.Probe{"startup": &c.StartupProbe, "readiness": &c.ReadinessProbe, "liveness": &c.LivenessProbe} {
			*p = execProbe(command)
			(*p).PeriodSeconds, (*p).TimeoutSeconds = 60, 5
		}
		c.StartupProbe.InitialDelaySeconds = 3
		pod := podOf("u", c)
		r.store.SetPodStatus(pod, statusOf(waiting("web", "")))
		r.add(pod)
		r.wait(7 * time.Second)

		begun := time.Now()
		r.store.SetPodStatus(pod, statusOf(starting("web", "c1")))
		r.wait(5 * time.Second)
		r.wantCached(probe.Startup, "c1", results.Success)
		r.store.SetContainerStartup("u", "c1", true)
		r.wait(65 * time.Second)
		for command, want := range map[string][]time.Duration{
			"startup": {3 * time.Second}, "readiness": {5 * time.Second, 65 * time.Second}, "liveness": {5 * time.Second, 65 * time.Second},
		} {
			var got []time.Duration
			for _, call := range handlers[`{"command":["`+command+`"]}`].Calls() {
				got = append(got, call.Start.Sub(begun))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: attempts at %v, want %v", command, got, want)
			}
		}
	})
}
