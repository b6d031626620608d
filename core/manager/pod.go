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

// podSet makes what the workers of one pod share, each part once.
type podSet struct {
	m          *Manager
	pod        *v1.Pod // copied before it is first used
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
	if c = specNamed(pod.Spec.Containers, name); c != nil {
		return c, false
	}
	c = specNamed(pod.Spec.InitContainers, name)
	return c, c != nil && IsSidecar(c)
}

// podPorts returns the ports of all containers of pod.
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

// put starts the probe of c, or changes it if it runs. It tries again when another goroutine
// has started, changed or removed the probe meanwhile.
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

// startWorker starts the worker of a probe whose handler is prepared. It reports false when
// there is one already.
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

// insert adds e and starts its worker, unless its probe exists.
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

// change changes a running probe to c. moved means that its target may be another one now. It
// reports false when the probe has ended, or was changed by another goroutine.
func (m *Manager) change(old *entry, c ProbeConfig, moved bool) (done bool, err error) {
	was := m.shape(old)
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

// rebind returns a handler bound to c: that of was if config and secrets are the same.
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

// inherit lets a probe whose secrets alone have changed keep its state. It loses the state if
// its handler panics.
func (m *Manager) inherit(next, was *bound) {
	defer func() {
		if p := recover(); p != nil {
			cmp.Or(m.cfg.Logger, slog.Default()).Error("panic when a handler inherited", "stack", string(debug.Stack()))
		}
	}()
	probe.Inherit(bare(next.Handler), bare(was.Handler))
}

// changeTo changes a running probe from was to next, and releases the handler that is not used
// any more. It reports false as change does.
func (m *Manager) changeTo(old *entry, next, was shape) (done bool) {
	c := next.config
	done = m.reform(old, next, worker.Change{
		Handler: next.bound.Handler, HandlerName: c.Handler, Spec: c.Spec, Target: c.target(),
		KeepRun: was.config.sameHandler(&c), Paused: c.Paused,
		KeepPaused: was.config.Paused == c.Paused, // after Pause or Resume
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

// reform sets the shape of e, unless e was taken, or was changed since next was made.
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

// reshape gives w the new labels, ports and restart policies of the pod. It reports whether
// the ports have changed, and so perhaps the target of an attempt.
func (s *podSet) reshape(w *worker.Worker) (moved bool) {
	old := w.Container()
	before, ok := old.Source.(*source)
	if !ok || equality.Semantic.DeepEqual(before.pod.Spec, s.pod.Spec) && maps.Equal(before.pod.Labels, s.pod.Labels) &&
		before.pod.DeletionTimestamp.Equal(s.pod.DeletionTimestamp) {
		return false
	}
	c := *s.container(before.container.Name)
	c.PriorID = old.PriorID // the agent was not restarted
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
		return nil, fmt.Errorf("%s: %w", c.Path, r.secrets.Error(err))
	}
	if err := probe.CheckSecrets(handler, r.secrets.fields); err != nil {
		probe.Release(handler)
		return nil, fmt.Errorf("%s: %w", c.Path, err)
	}
	if k, ok := handler.(probe.SecretKeeper); ok && len(r.secrets.values) > 0 {
		k.KeepSecret(redact.New(r.secrets.values).Replace)
	}
	return &bound{r.secrets.redacted(handler), r.mark}, nil
}

// prepareHandler prepares the handler of c. A panic becomes an error, so that one handler does
// not end the program.
func (m *Manager) prepareHandler(c ProbeConfig, config []byte) (h probe.Handler, err error) {
	defer func() {
		if p := recover(); p != nil {
			cmp.Or(m.cfg.Logger, slog.Default()).Error("panic when a handler was prepared", "handler", c.Handler, "stack", string(debug.Stack()))
			h, err = nil, fmt.Errorf("handler %q: panic: %v", c.Handler, p)
		}
	}()
	return m.cfg.Handlers.Prepare(c.Handler, config, c.Target)
}

// release releases a handler that prepare returned.
func release(h probe.Handler) { probe.Release(bare(h)) }

// bare returns the handler inside a redactor, and any other handler as it is.
func bare(h probe.Handler) probe.Handler {
	if r, ok := h.(redactor); ok {
		return r.Handler
	}
	return h
}

var seed = maphash.MakeSeed()

// spread returns the delay of the first tick of a new probe, and the time from there to the
// second tick; 0 means a period. While the manager is younger than the period, the first tick
// is delayed by a random part of it, so that the probes of an agent that has just started do
// not run all at once. Later the first tick is immediate, and the second one is spread.
func (m *Manager) spread(key Key, period time.Duration) (delay, phase time.Duration) {
	if period > time.Since(m.start) {
		return rand.N(period), 0
	}
	if m.cfg.Compat.Has(probe.CompatHerd) {
		return 0, 0
	}
	return 0, time.Duration(maphash.Comparable(seed, key)%uint64(period)) + 1
}

// source returns the state of one container to its workers.
type source struct {
	status    StatusSource
	pod       *v1.Pod // as it was added
	container *v1.Container
}

// podStatus returns the status of the pod. It does not copy that of a [StatusStore].
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

// containerStatus returns the status of the container called name: that of a regular container
// with an ID, or else that of an init container; nil if there is none.
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
