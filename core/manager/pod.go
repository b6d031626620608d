package manager

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/redact"
	"github.com/daeace23/prober/probe"
)

// podSet makes the things that the workers of one pod share, each of them once.
type podSet struct {
	m          *Manager
	pod        *v1.Pod // as given; copied when first needed
	copied     bool
	shared     *probe.Pod
	containers map[string]*worker.Container
}

func newPodSet(m *Manager, pod *v1.Pod) *podSet {
	return &podSet{m: m, pod: pod, containers: make(map[string]*worker.Container)}
}

func (s *podSet) container(name string) *worker.Container {
	if c, ok := s.containers[name]; ok {
		return c
	}
	if !s.copied {
		s.pod, s.copied = s.pod.DeepCopy(), true
		s.shared = &probe.Pod{Namespace: s.pod.Namespace, Name: s.pod.Name, UID: string(s.pod.UID), Labels: s.pod.Labels, Ports: podPorts(s.pod)}
	}
	spec, sidecar := findContainer(s.pod, name)
	c := &worker.Container{
		Pod: s.shared, Sidecar: sidecar,
		Container: &probe.Container{Name: name, Ports: ports(spec)},
		Source:    &source{status: s.m.cfg.Status, pod: s.pod, container: spec},
	}
	if r, ok := s.m.cfg.Status.(RestartSource); ok {
		c.NoRestart = !r.Restarts(s.pod, spec)
	}
	if status := containerStatus(&s.pod.Status, name); status != nil {
		c.PriorID = status.ContainerID
	}
	s.containers[name] = c
	return c
}

func findContainer(pod *v1.Pod, name string) (c *v1.Container, sidecar bool) {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return &pod.Spec.Containers[i], false
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == name {
			return c, IsSidecar(c)
		}
	}
	return nil, false
}

// podPorts returns the ports of all containers, which share the pod's address.
func podPorts(pod *v1.Pod) (all []probe.Port) {
	for i := range pod.Spec.InitContainers {
		all = append(all, ports(&pod.Spec.InitContainers[i])...)
	}
	for i := range pod.Spec.Containers {
		all = append(all, ports(&pod.Spec.Containers[i])...)
	}
	return all
}

func ports(c *v1.Container) []probe.Port {
	ports := make([]probe.Port, 0, len(c.Ports))
	for _, p := range c.Ports {
		ports = append(ports, probe.Port{Name: p.Name, Number: int(p.ContainerPort), Protocol: string(p.Protocol)})
	}
	return ports
}

// put makes a probe what c says, whatever others do to it meanwhile: it starts one that is
// not there, and changes one that is.
func (m *Manager) put(set *podSet, c ProbeConfig) error {
	moved := false
	for {
		var done bool
		var err error
		if old := m.entry(c.key(set.pod.UID)); old == nil {
			done, err = m.add(set, c)
		} else {
			moved = set.reshape(old.worker) || moved
			done, err = m.change(old, c, moved)
		}
		if done || err != nil {
			return err
		}
	}
}

// add starts the worker of one probe. It reports false when another goroutine has done so.
func (m *Manager) add(set *podSet, c ProbeConfig) (started bool, err error) {
	handler, err := m.prepare(c)
	if err != nil {
		return false, err
	}
	started, err = m.startWorker(set, c, handler)
	if !started {
		release(handler.Handler)
	}
	return started, err
}

// startWorker starts the worker of a probe whose handler is prepared, and reports false
// when there is one already.
func (m *Manager) startWorker(set *podSet, c ProbeConfig, handler *bound) (started bool, err error) {
	key := c.key(set.pod.UID)
	container := set.container(c.Container)
	delay, phase := m.spread(key, c.Spec.Period)
	rec := m.memory.newRecord()
	w := worker.New(&m.shared, worker.Config{
		Info: worker.Info{
			Subject: results.Subject{
				Namespace: set.shared.Namespace, Pod: set.shared.Name, PodUID: set.shared.UID, Container: c.Container,
			},
			Kind: c.Kind, Handler: c.Handler,
		},
		Spec: c.Spec, Handler: handler.Handler, Target: c.target(), Container: container, Paused: c.Paused,
		Delay: delay, Phase: phase, Observer: rec,
		Ended: func(w *worker.Worker) { m.ended(key.PodUID, w) },
	})
	started, err = m.insert(&entry{key: key, worker: w, record: rec, shape: shape{config: c, bound: handler}})
	if !started {
		w.Stop()
	}
	return started, err
}

// insert makes e one of the manager's and starts its worker, unless its probe exists.
func (m *Manager) insert(e *entry) (started bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return false, ErrClosed
	case m.entryLocked(e.key) != nil:
		return false, nil
	}
	m.pods[e.key.PodUID] = append(m.pods[e.key.PodUID], e)
	m.memory.probes.Add(1)
	e.worker.Start()
	return true, nil
}

// change gives a running probe a new shape; moved says that its attempts may go elsewhere
// now. It reports false when the probe has ended, or was changed by another goroutine.
func (m *Manager) change(old *entry, c ProbeConfig, moved bool) (done bool, err error) {
	was := m.present(old)
	next := was.bound
	switch same := was.config.equal(c); {
	case same && !moved:
		return true, nil
	case !same:
		if next, err = m.rebind(was, c); err != nil {
			return false, err
		}
	}
	return m.changeTo(old, shape{c, next, was.changes + 1}, was), nil
}

// rebind returns what c is to be bound to: that of was, where config and secrets are the
// same.
func (m *Manager) rebind(was shape, c ProbeConfig) (*bound, error) {
	r, err := m.resolve(c)
	if err != nil {
		return nil, err
	}
	if was.config.sameHandler(&c) && r.mark == was.bound.mark {
		return was.bound, nil
	}
	next, err := m.bind(c, r)
	if err == nil && was.config.sameHandler(&c) {
		m.inherit(next, was.bound)
	}
	return next, err
}

// inherit lets a probe that is the same but for its secrets keep what it has. One whose handler
// panics begins afresh.
func (m *Manager) inherit(next, was *bound) {
	defer func() {
		if p := recover(); p != nil {
			cmp.Or(m.cfg.Logger, slog.Default()).Error("panic when a handler inherited", "stack", string(debug.Stack()))
		}
	}()
	probe.Inherit(bare(next.Handler), bare(was.Handler))
}

// changeTo is change to a shape whose handler is bound.
func (m *Manager) changeTo(old *entry, next, was shape) (done bool) {
	c := next.config
	done = m.reform(old, next, worker.Change{
		Handler: next.bound.Handler, HandlerName: c.Handler, Spec: c.Spec, Target: c.target(),
		KeepRun: was.config.sameHandler(&c), Paused: c.Paused,
		KeepPaused: was.config.Paused == c.Paused, // Pause or Resume may have been called: the pod says nothing new of it
	})
	switch {
	case next.bound == was.bound:
	case done:
		release(was.bound.Handler)
	default:
		release(next.bound.Handler)
	}
	return done
}

// reform gives e its next shape, unless e has been taken, or has another one by now than
// that which the next was made of.
func (m *Manager) reform(e *entry, next shape, change worker.Change) (done bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entryLocked(e.key) != e || e.shape.changes+1 != next.changes {
		return false
	}
	e.shape = next
	e.worker.Update(change)
	return true
}

// reshape tells w of the pod as it is now: it looks at labels, ports and restart
// policies at every tick. It reports whether an attempt may go elsewhere now.
func (s *podSet) reshape(w *worker.Worker) (moved bool) {
	old := w.Container()
	before, ok := old.Source.(*source)
	if !ok || equality.Semantic.DeepEqual(before.pod.Spec, s.pod.Spec) && maps.Equal(before.pod.Labels, s.pod.Labels) &&
		before.pod.DeletionTimestamp.Equal(s.pod.DeletionTimestamp) {
		return false
	}
	c := *s.container(before.container.Name)
	c.PriorID = old.PriorID // an agent's restart is not what happened here
	w.Reshape(&c)
	return !slices.Equal(old.Container.Ports, c.Container.Ports)
}

func (m *Manager) prepare(c ProbeConfig) (*bound, error) {
	r, err := m.resolve(c)
	if err != nil {
		return nil, err
	}
	return m.bind(c, r)
}

// bind binds the handler of a probe to its config.
func (m *Manager) bind(c ProbeConfig, r resolved) (*bound, error) {
	handler, err := m.prepareHandler(c, r.config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Path, redactError(err, r.secrets.values))
	}
	if err := probe.CheckSecrets(handler, r.secrets.fields); err != nil {
		probe.Release(handler)
		return nil, fmt.Errorf("%s: %w", c.Path, err)
	}
	if k, ok := handler.(probe.SecretKeeper); ok && len(r.secrets.values) > 0 {
		k.KeepSecret(redact.New(r.secrets.values).Replace)
	}
	return &bound{redacted(handler, r.secrets.values), r.mark}, nil
}

// prepareHandler turns a panic into an error: one probe's handler, which may be anybody's,
// does not end the program.
func (m *Manager) prepareHandler(c ProbeConfig, config []byte) (h probe.Handler, err error) {
	defer func() {
		if p := recover(); p != nil {
			cmp.Or(m.cfg.Logger, slog.Default()).Error("panic when a handler was prepared", "handler", c.Handler, "stack", string(debug.Stack()))
			h, err = nil, fmt.Errorf("handler %q: panic: %v", c.Handler, p)
		}
	}()
	return m.cfg.Handlers.Prepare(c.Handler, config, c.Target.static())
}

// release lets go of a handler that prepare returned.
func release(h probe.Handler) { probe.Release(bare(h)) }

// bare returns the handler inside, where h is one that redacts.
func bare(h probe.Handler) probe.Handler {
	if r, ok := h.(redactor); ok {
		return r.Handler
	}
	return h
}

var seed = maphash.MakeSeed()

// spread says when a new probe ticks first, and how long after that for the second
// time. While the manager is younger than the period, the first tick is delayed by a
// random part of it, so that the probes of an agent that was just started do not run
// as a herd. Later the first tick is immediate and the second spread.
func (m *Manager) spread(key Key, period time.Duration) (delay, phase time.Duration) {
	if period > time.Since(m.start) {
		return rand.N(period), 0
	}
	if m.cfg.Compat.Has(probe.CompatHerd) {
		return 0, 0
	}
	return 0, time.Duration(maphash.Comparable(seed, key)%uint64(period)) + 1
}

// source is the state of one container as its workers see it.
type source struct {
	status    StatusSource
	pod       *v1.Pod // as it was added
	container *v1.Container
}

// podStatus asks for the pod's status, of a [StatusStore] without copying it.
func (s *source) podStatus() (*v1.PodStatus, bool) {
	if store, ok := s.status.(*StatusStore); ok {
		return store.podStatus(s.pod.UID)
	}
	status, ok := s.status.PodStatus(s.pod.UID)
	return &status, ok
}

// State implements [worker.Source].
func (s *source) State() worker.State {
	status, ok := s.podStatus()
	if !ok {
		return worker.State{}
	}
	state := worker.State{
		Found:    true,
		PodEnded: status.Phase == v1.PodFailed || status.Phase == v1.PodSucceeded,
		Deleting: s.pod.DeletionTimestamp != nil,
		PodIP:    status.PodIP,
	}
	c := containerStatus(status, s.container.Name)
	if c == nil {
		return state
	}
	state.ContainerID = c.ContainerID
	state.Started = c.Started != nil && *c.Started
	if c.State.Running != nil {
		state.Running, state.StartedAt = true, c.State.Running.StartedAt.Time
		return state
	}
	state.MayRestart = c.State.Terminated == nil ||
		ContainerShouldRestart(s.container, &s.pod.Spec, c.State.Terminated.ExitCode) ||
		AllContainersShouldRestart(s.pod, status)
	return state
}

// containerStatus finds the status of the container called name: among the regular
// ones, and where there is none with an ID, among the init containers.
func containerStatus(status *v1.PodStatus, name string) *v1.ContainerStatus {
	for _, list := range [...][]v1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == name && list[i].ContainerID != "" {
				return &list[i]
			}
		}
	}
	return nil
}
