package manager_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// binder binds handlers in Go, and counts the bindings and the releases.
type binder struct {
	probe.Handler
	bound, released int
}

func (b *binder) bind() (probe.Handler, error) {
	b.bound++
	return b, nil
}

func (b *binder) Release() { b.released++ }

func (b *binder) want(t *testing.T, when string, bound, released int) {
	t.Helper()
	if b.bound != bound || b.released != released {
		t.Errorf("%s: bound %d times and released %d times, want %d and %d", when, b.bound, b.released, bound, released)
	}
}

func TestTypedProbes(t *testing.T) {
	bubble(t, "typed probe replaces that of the container and of the annotation", func(t *testing.T) {
		r := newRig(t)
		pod := annotated("web: {liveness: {plugin: {name: other}}}")
		pod.Spec.Containers[0].ReadinessProbe = execProbe()
		r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
		b := &binder{Handler: probetest.NewHandler(failure)}
		typed := []manager.ProbeConfig{
			{Container: "web", Kind: probe.Readiness, Handler: "mine", Bind: b.bind, Spec: probe.Spec{FailureThreshold: 1}},
			{Container: "web", Kind: probe.Liveness, Handler: "mine", Bind: b.bind},
		}
		if err := r.m.AddPod(t.Context(), pod, typed...); err != nil {
			t.Fatal(err)
		}
		r.wait(time.Second)
		r.wantKeys("uid/web/liveness", "uid/web/readiness")
		r.wantCached(probe.Readiness, "c1", results.Failure)
		if got := r.status("uid", "web", probe.Readiness); got.Handler != "mine" || got.Spec.Period != 10*time.Second || got.Spec.Timeout != time.Second {
			t.Errorf("got %+v", got)
		}
		if n := len(r.preparations()); n != 0 {
			t.Errorf("%d handlers were found by name", n)
		}
		b.want(t, "added", 2, 0)
		if err := r.m.AddPod(t.Context(), pod, typed...); err != nil {
			t.Error(err)
		}
		b.want(t, "added again", 2, 0)
		if err := r.m.UpdatePod(t.Context(), pod, typed[0]); err != nil { // the other probe comes from the annotation again
			t.Error(err)
		}
		b.want(t, "one is left", 2, 1)
		if got := r.status("uid", "web", probe.Liveness).Handler; got != "other" {
			t.Errorf("the liveness probe has handler %s", got)
		}
		typed[0].Config = []byte("2")
		if err := r.m.UpdatePod(t.Context(), pod, typed[0]); err != nil {
			t.Error(err)
		}
		b.want(t, "another config", 3, 2)
		r.m.RemovePod(pod)
		b.want(t, "removed", 3, 3)
	})
	bubble(t, "plugin without YAML", func(t *testing.T) {
		r := newRig(t)
		pod := podOf("u", v1.Container{Name: "web"})
		r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
		target := probe.Target{Port: 6379}
		if err := r.m.AddPod(t.Context(), pod, manager.ProbeConfig{Container: "web", Kind: probe.Readiness, Handler: "redis", Config: []byte(`{"db":1}`), Target: target}); err != nil {
			t.Fatal(err)
		}
		got := r.preparations()
		if len(got) != 1 || got[0].name != "redis" || got[0].config != `{"db":1}` || got[0].target != target {
			t.Errorf("got %+v", got)
		}
	})
	bubble(t, "errors name the probe, and its container is not ready", func(t *testing.T) {
		r := newRig(t)
		pod := podOf("u", v1.Container{Name: "web"})
		status := statusOf(running("web", "c1"))
		r.store.SetPodStatus(pod, status)
		for _, tc := range []struct {
			edit func(*manager.ProbeConfig)
			want string
		}{
			{func(c *manager.ProbeConfig) { c.Container = "other" }, "typed[other].readiness: the pod has no such container"},
			{func(c *manager.ProbeConfig) { c.Handler = "" }, "typed[web].readiness: the handler has no name"},
			{func(c *manager.ProbeConfig) { c.Spec.Period = time.Millisecond }, "typed[web].readiness: period and timeout must be at least 10ms"},
			{func(c *manager.ProbeConfig) { c.Spec.FailureThreshold = -1 }, "typed[web].readiness: thresholds must be at least 1"},
			{func(c *manager.ProbeConfig) { c.Kind = 7 }, "typed[web].unknown: unknown kind"},
			{func(c *manager.ProbeConfig) {
				c.Bind = func() (probe.Handler, error) { return nil, errors.New("no such table") }
			}, "typed[web].readiness: no such table"},
		} {
			c := manager.ProbeConfig{Container: "web", Kind: probe.Readiness, Handler: "mine"}
			tc.edit(&c)
			err := r.m.AddPod(t.Context(), pod, c)
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			if c.Container != "web" || c.Kind != probe.Readiness {
				continue
			}
			r.m.UpdatePodStatus(pod, &status)
			if status.ContainerStatuses[0].Ready {
				t.Errorf("%s: the container is ready", tc.want)
			}
		}
		if diff := cmp.Diff([]string{}, r.keys()); diff != "" {
			t.Error(diff)
		}
	})
}
