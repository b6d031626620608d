package manager_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// statusAfter returns the status of a running container without a history after UpdatePodStatus.
func statusAfter(t *testing.T, r *rig, pod *v1.Pod) (started, ready bool) {
	t.Helper()
	status := statusOf(running("web", "c1"))
	status.ContainerStatuses[0].Started, status.ContainerStatuses[0].Ready = nil, false
	r.m.UpdatePodStatus(pod, &status)
	c := status.ContainerStatuses[0]
	return c.Started != nil && *c.Started, c.Ready
}

// A restarted agent computes statuses before it adds pods.
//
// Reported as kubernetes 142305, 135795.
func TestStatusBeforeAddPodIsUndecided(t *testing.T) {
	for _, tc := range []struct {
		kind           probe.Kind
		compat         manager.Compat
		started, ready bool
	}{
		{probe.Startup, 0, false, false},
		{probe.Readiness, 0, true, false},
		{probe.Liveness, 0, true, true},
		{probe.Startup, manager.KubeletV1_36, true, true},
		{probe.Readiness, manager.KubeletV1_36, true, true},
	} {
		bubble(t, fmt.Sprint(tc.kind, tc.compat), func(t *testing.T) {
			r := newRig(t, compat(tc.compat))
			if started, ready := statusAfter(t, r, podOf("u", container("web", tc.kind))); started != tc.started || ready != tc.ready {
				t.Errorf("started %v, ready %v; want %v, %v", started, ready, tc.started, tc.ready)
			}
		})
	}
}

// A declared probe that could not be started counts as not run yet.
func TestAddPodRefusedProbeIsUndecided(t *testing.T) {
	missing := errors.New(`unknown handler "redis"`)
	noHandler := func(pod *v1.Pod) { eachProbe(pod, func(p *v1.Probe) { p.ProbeHandler = v1.ProbeHandler{} }) }
	badPeriod := func(pod *v1.Pod) { eachProbe(pod, func(p *v1.Probe) { p.PeriodSeconds = -1 }) }
	annotation := func(text string) func(*v1.Pod) {
		return func(pod *v1.Pod) {
			eachProbe(pod, func(p *v1.Probe) { *p = v1.Probe{} })
			c := &pod.Spec.Containers[0]
			c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = nil, nil, nil
			pod.Annotations = map[string]string{declared.Annotation: text}
		}
	}
	for _, tc := range []struct {
		name           string
		kind           probe.Kind
		edit           func(*v1.Pod)
		err            error // of Prepare
		started, ready bool
	}{
		{"readiness, missing plugin", probe.Readiness, nil, missing, true, false},
		{"startup, missing plugin", probe.Startup, nil, missing, false, false},
		{"liveness, missing plugin", probe.Liveness, nil, missing, true, true},
		{"readiness without a handler", probe.Readiness, noHandler, nil, true, false},
		{"startup without a handler", probe.Startup, noHandler, nil, false, false},
		{"readiness with a bad period", probe.Readiness, badPeriod, nil, true, false},
		{"annotated readiness with a bad field", probe.Readiness, annotation("web: {readiness: {plugin: {nam: redis}}}"), nil, true, false},
		{"annotated probe of an unknown kind", probe.Readiness, annotation("web: {readyness: {plugin: {name: redis}}}"), nil, false, false},
		{"unreadable annotation", probe.Readiness, annotation("web: ["), nil, false, false},
		{"annotated container that is not there", probe.Readiness, annotation("wbe: {readiness: {plugin: {name: redis}}}"), nil, false, false},
	} {
		bubble(t, tc.name, func(t *testing.T) {
			r := newRig(t)
			r.handle = func(string, []byte) (*probetest.Handler, error) { return probetest.NewHandler(success), tc.err }
			pod := podOf("u", container("web", tc.kind))
			if tc.edit != nil {
				tc.edit(pod)
			}
			if err := r.m.AddPod(t.Context(), pod); err == nil {
				t.Fatal("AddPod returned no error")
			}
			if started, ready := statusAfter(t, r, pod); started != tc.started || ready != tc.ready {
				t.Errorf("started %v, ready %v; want %v, %v", started, ready, tc.started, tc.ready)
			}
			r.m.RemovePod(pod)
			if started, ready := statusAfter(t, r, pod); started != tc.started || ready != tc.ready {
				t.Errorf("after RemovePod: started %v, ready %v", started, ready)
			}
			_ = r.m.UpdatePod(t.Context(), pod)
			r.m.CleanupPods(map[types.UID]sets.Empty{})
			if started, ready := statusAfter(t, r, pod); started != tc.started || ready != tc.ready {
				t.Errorf("after CleanupPods: started %v, ready %v", started, ready)
			}
		})
	}
}

func TestAddPodAgainWhenPluginAppears(t *testing.T) {
	bubble(t, "probe is started, and decides", func(t *testing.T) {
		r := newRig(t)
		err := errors.New("missing")
		r.handle = func(string, []byte) (*probetest.Handler, error) { return probetest.NewHandler(success), err }
		pod := podOf("u", container("web", probe.Readiness))
		r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
		if r.m.AddPod(t.Context(), pod) == nil {
			t.Fatal("AddPod returned no error")
		}
		err = nil
		r.add(pod)
		if started, ready := statusAfter(t, r, pod); !started || !ready {
			t.Errorf("started %v, ready %v", started, ready)
		}
	})
}

// The kubelet's AddPod stops at the first probe that exists. A probe that was refused earlier still counts
// as not run yet at the next sync.
func TestAddPodAgainKeepsRefusedProbesUndecided(t *testing.T) {
	for name, switches := range map[string]manager.Compat{"default": 0, "kubelet": manager.KubeletV1_36} {
		bubble(t, name, func(t *testing.T) {
			r := newRig(t, compat(switches))
			r.handle = func(handler string, _ []byte) (*probetest.Handler, error) {
				if handler == "exec" {
					return probetest.NewHandler(success), nil
				}
				return nil, errors.New("missing")
			}
			pod := podOf("u", container("first", probe.Readiness), container("web", probe.Readiness))
			pod.Spec.Containers[1].ReadinessProbe.ProbeHandler = v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(1)}}
			for range 3 {
				_ = r.m.AddPod(t.Context(), pod)
				if _, ready := statusAfter(t, r, pod); ready {
					t.Error("ready, though its probe was not started")
				}
			}
		})
	}
}

// Reported as kubernetes 140881.
func TestAddPodCanceledProbesAreUndecided(t *testing.T) {
	bubble(t, "readiness", func(t *testing.T) {
		r := newRig(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		pod := podOf("u", container("web", probe.Readiness))
		if err := r.m.AddPod(ctx, pod); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if _, ready := statusAfter(t, r, pod); ready {
			t.Error("ready, though its probe was not started")
		}
	})
}

// askingObserver calls Probes in every method, as an agent may.
type askingObserver struct {
	m     *manager.Manager
	calls map[string]int
}

func (o *askingObserver) ask(what string) {
	_ = o.m.Probes()
	o.calls[what]++
}

func (o *askingObserver) Observe(worker.Info) worker.ProbeObserver {
	o.ask("observe")
	return o
}
func (o *askingObserver) Tick(*worker.Tick)              { o.ask("tick") }
func (o *askingObserver) Skipped(worker.SkipReason, int) { o.ask("skipped") }
func (o *askingObserver) Close()                         { o.ask("close") }

func TestObserverCallsManager(t *testing.T) {
	bubble(t, "in every method", func(t *testing.T) {
		o := &askingObserver{calls: make(map[string]int)}
		r := newRig(t, func(cfg *manager.Config) { cfg.Observers = []worker.Observer{o} })
		o.m = r.m
		pod := podOf("u", container("web", probe.Readiness))
		r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
		r.add(pod)
		r.m.RemovePod(pod)
		for _, what := range []string{"observe", "tick", "close"} {
			if o.calls[what] != 1 {
				t.Errorf("%d calls of %s", o.calls[what], what)
			}
		}
	})
}

func TestShutdown(t *testing.T) {
	bubble(t, "error names probes that do not end", func(t *testing.T) {
		r := newRig(t)
		stuck := success.After(time.Hour)
		stuck.Deaf = true
		r.always(probetest.NewHandler(stuck))
		pod := podOf("u", container("web", probe.Readiness))
		r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
		r.add(pod)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := r.m.Shutdown(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `probes are still under way: ns/pod-u/web readiness (handler "exec")`) {
			t.Errorf("got %v", err)
		}
		if err := r.m.AddPod(t.Context(), podOf("v", container("web", probe.Readiness))); !errors.Is(err, manager.ErrClosed) {
			t.Errorf("AddPod afterwards: %v", err)
		}
		if err := r.m.Close(); err != nil { // an hour later
			t.Error(err)
		}
	})
	bubble(t, "error names a recorder that does not return", func(t *testing.T) {
		over := make(chan struct{})
		r := newRig(t, func(cfg *manager.Config) { cfg.Recorder = stuckRecorder{cfg.Recorder, over} })
		r.always(probetest.NewHandler(failure))
		pod := podOf("u", container("web", probe.Readiness))
		r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
		r.add(pod)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.m.Shutdown(ctx); err == nil || !strings.Contains(err.Error(), "the recorder has not recorded all events") {
			t.Errorf("got %v", err)
		}
		close(over)
	})
	bubble(t, "all probes are stopped though one does not end", func(t *testing.T) {
		o := &stuckObserver{over: make(chan struct{})}
		r := newRig(t, func(cfg *manager.Config) { cfg.Observers = []worker.Observer{o} })
		h := r.always(probetest.NewHandler(success))
		for _, uid := range []string{"1", "2", "3"} {
			pod := podOf(uid, container("web", probe.Readiness))
			r.store.SetPodStatus(pod, statusOf(running("web", "c"+uid)))
			r.add(pod)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.m.Shutdown(ctx); err == nil || strings.Count(err.Error(), `/web readiness`) != 3 {
			t.Errorf("got %v", err)
		}
		before := h.Count()
		time.Sleep(time.Minute)
		if got := h.Count() - before; got != 0 {
			t.Errorf("%d attempts after Shutdown", got)
		}
		close(o.over)
	})
	bubble(t, "idle manager is no error after the end of ctx", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := newRig(t).m.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	bubble(t, "Shutdown returns at once when no attempt is under way", func(t *testing.T) {
		r := newRig(t)
		r.add(probedPod("u"))
		before := time.Now()
		if err := r.m.Shutdown(t.Context()); err != nil || time.Since(before) != 0 {
			t.Errorf("%v after %v", err, time.Since(before))
		}
	})
}

// stuckRecorder blocks until over is closed.
type stuckRecorder struct {
	manager.Recorder
	over chan struct{}
}

func (r stuckRecorder) Event(object runtime.Object, eventtype, reason, message string) {
	<-r.over
	r.Recorder.Event(object, eventtype, reason, message)
}

// stuckObserver blocks in Close until over is closed.
type stuckObserver struct{ over chan struct{} }

func (o *stuckObserver) Observe(worker.Info) worker.ProbeObserver { return o }
func (o *stuckObserver) Tick(*worker.Tick)                        {}
func (o *stuckObserver) Skipped(worker.SkipReason, int)           {}
func (o *stuckObserver) Close()                                   { <-o.over }

func TestRefused(t *testing.T) {
	key := func(kind probe.Kind) manager.Key { return manager.Key{PodUID: "u", Container: "web", Kind: kind} }
	for _, tc := range []struct {
		name, text string
		err        error // of Prepare
		want       []manager.Key
	}{
		{"none", "web: {readiness: {tcpSocket: {port: 1}}}", nil, nil},
		{"handler", "web: {readiness: {plugin: {name: redis}}}", errors.New("unknown handler"), []manager.Key{key(probe.Readiness)}},
		{"field", "web: {readiness: {perid: 1s}, liveness: {tcpSocket: {port: 1}}}", nil, []manager.Key{key(probe.Readiness)}},
		{"unreadable", "web: [", nil, []manager.Key{key(probe.Liveness), key(probe.Readiness), key(probe.Startup)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.handle = func(string, []byte) (*probetest.Handler, error) { return probetest.NewHandler(success), tc.err }
				pod := annotated(tc.text)
				pod.UID = "u"
				_ = r.m.AddPod(t.Context(), pod)
				if got := r.m.Refused("u"); !slices.Equal(got, tc.want) {
					t.Errorf("got %v, want %v", got, tc.want)
				}
				r.m.RemovePod(pod)
				if got := r.m.Refused("u"); got != nil {
					t.Errorf("after the end of the pod: %v", got)
				}
			})
		})
	}
}

// nothing is a registry whose Prepare returns neither a handler nor an error.
type nothing struct{}

func (nothing) Prepare(string, []byte, probe.Target) (probe.Handler, error) { return nil, nil }

func TestPrepareWithoutHandlerIsError(t *testing.T) {
	m, err := manager.New(manager.Config{Status: new(manager.StatusStore), Handlers: nothing{}})
	if err != nil {
		t.Fatal(err)
	}
	pod := &v1.Pod{}
	pod.UID, pod.Annotations = "u", map[string]string{declared.Annotation: `web: {liveness: {plugin: {name: redis}}}`}
	pod.Spec.Containers = []v1.Container{{Name: "web"}}
	for name, start := range map[string]func(context.Context, *v1.Pod, ...manager.ProbeConfig) error{"AddPod": m.AddPod, "UpdatePod": m.UpdatePod} {
		if err := start(t.Context(), pod); err == nil || !strings.HasSuffix(err.Error(), `[web].liveness: handler "redis": neither a handler nor an error was returned`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
