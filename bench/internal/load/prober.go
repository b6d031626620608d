package load

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	core "github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/probe"
)

// ours runs prober's manager with its metrics and a reader of its results, without a history.
type ours struct {
	manager  *core.Manager
	metrics  *metrics.Metrics
	registry *prometheus.Registry
}

func newProber(ctx context.Context, r *Request, pods []*v1.Pod, run runner) (*ours, error) {
	store := new(core.StatusStore)
	for _, pod := range pods {
		store.SetPodStatus(pod, pod.Status)
	}
	o := &ours{metrics: metrics.New(metrics.Config{}), registry: prometheus.NewRegistry()}
	if err := o.metrics.RegisterShared(o.registry); err != nil {
		return nil, err
	}
	found, err := ourHandlers(r, run)
	if err != nil {
		return nil, err
	}
	o.manager, err = core.New(core.Config{Status: store, Handlers: found, Observers: []worker.Observer{o.metrics}})
	if err != nil {
		return nil, err
	}
	go func() {
		for range o.manager.Subscribe(ctx) {
		}
	}()
	return o, nil
}

func (o *ours) add(ctx context.Context, pod *v1.Pod, _ int) error { return o.manager.AddPod(ctx, pod) }

func (o *ours) gather() (string, error) {
	return serve(o.metrics.Handler(metrics.HandlerConfig{Rest: o.registry}))
}

func (o *ours) lags() (*ownLags, error) { return lagsOf(o.registry) }

func ourHandlers(r *Request, run runner) (core.Handlers, error) {
	if r.Bare {
		return &bare{run: run}, nil
	}
	registry := new(handlers.Registry)
	return registry, builtin.Register(registry, builtin.Config{Runner: ourRunner{run}})
}

type ourRunner struct{ run runner }

func (r ourRunner) RunInContainer(ctx context.Context, _ string, cmd []string, timeout time.Duration) ([]byte, error) {
	i, err := strconv.Atoi(cmd[0])
	if err != nil {
		return nil, err
	}
	if r.run(ctx, i, timeout) {
		return nil, exitError{}
	}
	return nil, nil
}

// bare makes handlers that do nothing. They are numbered in the order of the calls of Prepare, which is the
// order of the probes.
type bare struct {
	run  runner
	next int
}

func (b *bare) Prepare(string, []byte, probe.Target) (probe.Handler, error) {
	b.next++
	return &bareHandler{b.run, b.next - 1}, nil
}

type bareHandler struct {
	run runner
	i   int
}

func (h *bareHandler) Probe(ctx context.Context, r probe.Request) (probe.Outcome, error) {
	if h.run(ctx, h.i, r.Spec.Timeout) {
		return probe.Outcome{Result: probe.Failure}, nil
	}
	return probe.Outcome{Result: probe.Success}, nil
}
