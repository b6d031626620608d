package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// container is one running copy of a workload.
type container interface {
	Waiting() int // jobs in its queue
	Stop()
}

// workload starts containers on the fabric, by name.
type workload map[string]func(*fabric) container

// agent runs pods of goroutines, without package agent of prober: it uses core/manager, and is its
// manager's source of statuses. A program that keeps package agent, and only brings other pods,
// implements agent.PodSource instead.
type agent struct {
	network  *fabric
	registry handlers.Registry
	host     *wasm.Host
	manager  *manager.Manager

	mu   sync.Mutex
	pods map[types.UID]*runningPod
}

type runningPod struct {
	pod        *v1.Pod
	workload   workload
	containers map[string]container // by container ID
	status     v1.PodStatus         // replaced as a whole, never modified
}

func newAgent(ctx context.Context, network *fabric, plugins []string) (*agent, error) {
	a := &agent{network: network, pods: make(map[types.UID]*runningPod)}
	if err := a.register(ctx, plugins); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	m, err := manager.New(manager.Config{Status: a, Handlers: &a.registry})
	a.manager = m
	return a, err
}

// register fills the registry: the built-in handlers, our own, and plugins.
func (a *agent) register(ctx context.Context, plugins []string) (err error) {
	cfg := builtin.Config{DialContext: a.network.DialContext, Runner: &builtin.HostRunner{}}
	if err := builtin.Register(&a.registry, cfg); err != nil {
		return err
	}
	if err := a.registry.Register("backlog", "this agent", &backlog{a.waiting}); err != nil {
		return err
	}
	if a.host, err = wasm.New(wasm.Config{DialContext: a.network.DialContext}); err != nil {
		return err
	}
	for _, path := range plugins {
		code, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		handler, err := a.host.Load(ctx, plugin.Found{Module: code})
		if err != nil {
			return err
		}
		if err := a.registry.Register(handler.Manifest().Name, path, handler); err != nil {
			return err
		}
	}
	return nil
}

// PodStatus implements [manager.StatusSource].
func (a *agent) PodStatus(uid types.UID) (v1.PodStatus, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.pods[uid]
	if !ok {
		return v1.PodStatus{}, false
	}
	return p.status, true
}

func (a *agent) waiting(containerID string) (jobs int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.pods {
		if c, ok := p.containers[containerID]; ok {
			return c.Waiting(), true
		}
	}
	return 0, false
}

// Start starts the containers of pod and probes them.
func (a *agent) Start(ctx context.Context, pod *v1.Pod, w workload) error {
	p := &runningPod{pod: pod, workload: w, containers: make(map[string]container)}
	p.status = v1.PodStatus{Phase: v1.PodRunning, PodIP: podIP}
	for _, c := range pod.Spec.Containers {
		p.status.ContainerStatuses = append(p.status.ContainerStatuses, a.newContainer(p, c.Name, 0))
	}
	a.mu.Lock()
	a.pods[pod.UID] = p
	a.mu.Unlock()
	if err := a.manager.AddPod(ctx, pod); err != nil {
		return err
	}
	a.publish(ctx, pod.UID)
	return nil
}

func (a *agent) newContainer(p *runningPod, name string, restarts int32) v1.ContainerStatus {
	id := fmt.Sprintf("goroutine://%s-%d", name, restarts)
	p.containers[id] = p.workload[name](a.network)
	return v1.ContainerStatus{
		Name: name, ContainerID: id, RestartCount: restarts,
		State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}
}

// publish writes the decided results of the probes into the pod's status.
func (a *agent) publish(ctx context.Context, uid types.UID) {
	a.mu.Lock()
	p, ok := a.pods[uid]
	if !ok {
		a.mu.Unlock()
		return
	}
	status := p.status.DeepCopy()
	a.mu.Unlock()
	a.manager.UpdatePodStatus(ctx, p.pod, status)
	a.mu.Lock()
	p.status = *status
	a.mu.Unlock()
}

// Watch reads the decided results, as a kubelet's sync loop does, and prints each.
func (a *agent) Watch(ctx context.Context) iter.Seq[string] {
	return func(yield func(string) bool) {
		for u := range a.manager.Subscribe(ctx) {
			if u.Removed { // the container was replaced, or its pod is gone
				continue
			}
			if u.Kind != probe.Readiness && u.Result == results.Failure {
				a.restart(types.UID(u.PodUID), u.ContainerID)
			}
			a.publish(ctx, types.UID(u.PodUID))
			if !yield(fmt.Sprintf("%s %s %s", u.ContainerID, u.Kind, u.Result.Word())) {
				return
			}
		}
	}
}

// restart replaces a container. Its new ID lifts the hold of its workers.
func (a *agent) restart(uid types.UID, containerID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pods[uid]
	if p == nil || p.containers[containerID] == nil {
		return
	}
	p.containers[containerID].Stop()
	delete(p.containers, containerID)
	status := p.status.DeepCopy()
	for i, c := range status.ContainerStatuses {
		if c.ContainerID == containerID {
			status.ContainerStatuses[i] = a.newContainer(p, c.Name, c.RestartCount+1)
		}
	}
	p.status = *status
}

// Close ends the probes, the containers and the plugins.
func (a *agent) Close() error {
	var errs []error
	if a.manager != nil {
		errs = append(errs, a.manager.Close())
	}
	for _, p := range a.pods {
		for _, c := range p.containers {
			c.Stop()
		}
	}
	errs = append(errs, a.registry.Close())
	if a.host != nil {
		errs = append(errs, a.host.Close())
	}
	return errors.Join(errs...)
}
