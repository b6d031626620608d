package manager_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// outsider implements all callbacks of a manager. Each of them calls the manager, which would deadlock if
// the caller held a lock.
type outsider struct {
	slog.Handler // handler of the log
	m            *manager.Manager
	store        manager.StatusStore

	mu    sync.Mutex
	calls map[string]bool
}

func (o *outsider) call(what string) {
	if o.m == nil {
		return // the manager is being made
	}
	_ = o.m.Probes()
	o.m.RemovePod(&v1.Pod{})
	_ = o.m.Pause(manager.Key{})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls[what] = true
}

func (o *outsider) PodStatus(uid types.UID) (v1.PodStatus, bool) {
	o.call("PodStatus")
	return o.store.PodStatus(uid)
}

func (o *outsider) Prepare(string, []byte, probe.Target) (probe.Handler, error) {
	o.call("Prepare")
	return outsiderProbe{o}, nil
}

func (o *outsider) Event(runtime.Object, string, string, string) { o.call("Event") }

func (o *outsider) Observe(worker.Info) worker.ProbeObserver {
	o.call("Observe")
	return outsiderProbe{o}
}

func (o *outsider) Handle(context.Context, slog.Record) error {
	o.call("log")
	return nil
}

// outsiderProbe is the handler and the observer of one probe.
type outsiderProbe struct{ of *outsider }

func (p outsiderProbe) Probe(_ context.Context, req probe.Request) (probe.Outcome, error) {
	p.of.call("Probe")
	if req.Kind == probe.Liveness {
		panic("it is logged")
	}
	return probe.Outcome{}, errors.New("errored")
}

func (p outsiderProbe) KeepSecret(func(string) string) { p.of.call("KeepSecret") }

func (p outsiderProbe) Secrets() []string {
	p.of.call("Secrets")
	return nil
}

func (p outsiderProbe) Release()                       { p.of.call("Release") }
func (p outsiderProbe) Tick(*worker.Tick)              { p.of.call("Tick") }
func (p outsiderProbe) Skipped(worker.SkipReason, int) { p.of.call("Skipped") }
func (p outsiderProbe) Close()                         { p.of.call("Close") }

// The manager calls no callback with a lock held.
func TestCallbacksCallManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outsider{Handler: slog.NewTextHandler(io.Discard, nil), calls: make(map[string]bool)}
		o.store.Changed = func(*v1.Pod, v1.PodStatus) { o.call("Changed") }
		m, err := manager.New(manager.Config{
			Status: o, Handlers: o, Recorder: o, Observers: []worker.Observer{o}, Logger: slog.New(o), Compat: probe.CompatPanicSkips,
			ResolveSecret: func(string, string) (string, error) {
				o.call("ResolveSecret")
				return "hunter22", nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		o.m = m
		pod := podOf("u", container("web"))
		pod.Annotations = map[string]string{
			declared.Annotation: `{web: {readiness: {plugin: {name: a, config: {x: "${env:X}"}}}, liveness: {plugin: {name: a}}}}`,
		}
		o.store.SetPodStatus(pod, statusOf(running("web", "c1")))
		if err := m.AddPod(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		pod.Annotations[declared.Annotation] = `{web: {liveness: {plugin: {name: a, config: {y: 1}}}}}`
		if err := m.UpdatePod(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		for _, what := range []string{
			"Changed", "Close", "Event", "KeepSecret", "Observe", "PodStatus", "Prepare", "Probe", "Release", "ResolveSecret", "Secrets", "Skipped", "Tick", "log",
		} {
			if !o.calls[what] {
				t.Errorf("%s was not called", what)
			}
		}
	})
}
