package load

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/probe"
)

// services runs a group of prober with its metrics and a reader of its results. Its keys are the names of the
// pods, and its tasks are their containers. It does not keep the pods.
type services struct {
	group    *group.Group[string]
	metrics  *metrics.Metrics // nil: the group has no observer
	registry *prometheus.Registry
	run      runner
}

func newGroup(ctx context.Context, observed bool, run runner) (*services, error) {
	s, config := &services{run: run}, group.Config{}
	if observed {
		s.metrics, s.registry = metrics.New(metrics.Config{}), prometheus.NewRegistry()
		if err := s.metrics.RegisterShared(s.registry); err != nil {
			return nil, err
		}
		config.Observers = []worker.Observer{s.metrics}
	}
	var err error
	if s.group, err = group.New[string](config); err != nil {
		return nil, err
	}
	go func() {
		for range s.group.Subscribe(ctx) {
		}
	}()
	return s, nil
}

func (s *services) add(_ context.Context, pod *v1.Pod, first int) error {
	for i, c := range pod.Spec.Containers {
		task := &worker.Task{Subject: results.Subject{Namespace: pod.Namespace, Pod: pod.Name, PodUID: string(pod.UID), Container: c.Name}}
		status := &pod.Status.ContainerStatuses[i]
		task.SetState(worker.Running(status.ContainerID, status.State.Running.StartedAt.Time))
		// In the order in which the probes are numbered.
		for _, p := range []struct {
			kind probe.Kind
			spec *v1.Probe
		}{{probe.Startup, c.StartupProbe}, {probe.Readiness, c.ReadinessProbe}, {probe.Liveness, c.LivenessProbe}} {
			if p.spec == nil {
				continue
			}
			spec := probe.Spec{
				Period: time.Duration(p.spec.PeriodSeconds) * time.Second, Timeout: time.Duration(p.spec.TimeoutSeconds) * time.Second,
				SuccessThreshold: int(p.spec.SuccessThreshold), FailureThreshold: int(p.spec.FailureThreshold),
			}
			if err := s.group.Add(pod.Name, group.Probe{Task: task, Kind: p.kind, Handler: &bareHandler{s.run, first}, Name: "bare", Spec: spec}); err != nil {
				return err
			}
			first++
		}
	}
	return nil
}

func (s *services) lags() (*ownLags, error) {
	if s.metrics == nil {
		return nil, nil
	}
	return lagsOf(s.registry)
}

func (s *services) gather() (string, error) {
	if s.metrics == nil {
		return "", errors.New("no metrics")
	}
	return serve(s.metrics.Handler(metrics.HandlerConfig{Rest: s.registry}))
}
