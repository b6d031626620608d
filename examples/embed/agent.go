package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/probe"
)

// running is a container of a pod.
type running struct {
	container
	pod   *v1.Pod
	start func(*fabric) container
}

// agent runs pods of goroutines with core/manager, without package agent of prober. A program that uses
// package agent with other pods implements a pods.Source instead.
type agent struct {
	network  *fabric
	registry handlers.Registry
	host     *wasm.Host
	statuses manager.StatusStore
	manager  *manager.Manager

	mu         sync.Mutex
	containers map[string]running // by container ID
}

func newAgent(ctx context.Context, network *fabric, plugins []string) (*agent, error) {
	a := &agent{network: network, containers: make(map[string]running)}
	if err := a.register(ctx, plugins); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	m, err := manager.New(manager.Config{Status: &a.statuses, Handlers: &a.registry})
	a.manager = m
	return a, err
}

func (a *agent) waiting(containerID string) (jobs int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c, ok := a.containers[containerID]
	if !ok {
		return 0, false
	}
	return c.Waiting(), true
}

// Start starts the containers of pod and probes them. It must not be called during [agent.Watch].
func (a *agent) Start(ctx context.Context, pod *v1.Pod, w workload) error {
	status := v1.PodStatus{Phase: v1.PodRunning, PodIP: podIP}
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, a.run(pod, c.Name, w[c.Name], 0))
	}
	a.statuses.SetPodStatus(pod, status)
	if err := a.manager.AddPod(ctx, pod); err != nil {
		return err
	}
	a.publish(ctx, pod, &status)
	return nil
}

// run starts a container, and returns its status. Its ID is unique.
func (a *agent) run(pod *v1.Pod, name string, start func(*fabric) container, restarts int32) v1.ContainerStatus {
	id := fmt.Sprintf("goroutine://%s/%s-%d", pod.UID, name, restarts)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.containers[id] = running{start(a.network), pod, start}
	return v1.ContainerStatus{
		Name: name, ContainerID: id, RestartCount: restarts,
		State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}
}

// publish publishes a status, with the decided results of the probes in it.
func (a *agent) publish(ctx context.Context, pod *v1.Pod, status *v1.PodStatus) {
	a.manager.UpdatePodStatus(pod, status)
	a.statuses.SetPodStatus(pod, *status)
}

// Watch applies the decided results, as a kubelet's sync loop does, and prints each.
func (a *agent) Watch(ctx context.Context) iter.Seq[string] {
	return func(yield func(string) bool) {
		for u := range a.manager.Subscribe(ctx) {
			switch uid := types.UID(u.PodUID); {
			case u.Removed: // the container was replaced, or its pod is gone
				continue
			case u.Kind == probe.Readiness:
				a.statuses.SetContainerReadiness(uid, u.ContainerID, u.Result == results.Success)
			case u.Result == results.Failure:
				a.restart(ctx, u.ContainerID)
			case u.Kind == probe.Startup:
				a.statuses.SetContainerStartup(uid, u.ContainerID, u.Result == results.Success)
			}
			if !yield(fmt.Sprintf("%s %s %s", u.ContainerID, u.Kind, u.Result.Word())) {
				return
			}
		}
	}
}

// restart replaces a container. Its new ID ends the hold of its probes.
func (a *agent) restart(ctx context.Context, id string) {
	a.mu.Lock()
	old, ok := a.containers[id]
	delete(a.containers, id)
	a.mu.Unlock()
	if !ok {
		return
	}
	old.Stop()
	now, _ := a.statuses.PodStatus(old.pod.UID)
	status := now.DeepCopy() // statuses in the store are read-only
	for i, c := range status.ContainerStatuses {
		if c.ContainerID == id {
			status.ContainerStatuses[i] = a.run(old.pod, c.Name, old.start, c.RestartCount+1)
		}
	}
	a.publish(ctx, old.pod, status)
}

// Close stops the probes, the containers and the plugins.
func (a *agent) Close() error {
	var errs []error
	if a.manager != nil {
		errs = append(errs, a.manager.Close())
	}
	for _, c := range a.containers {
		c.Stop()
	}
	errs = append(errs, a.registry.Close())
	if a.host != nil {
		errs = append(errs, a.host.Close())
	}
	return errors.Join(errs...)
}
