package manager

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// podSet creates the data that the workers of one pod share, each part once. It keeps only strings and
// ports of the pod.
type podSet struct {
	m      *Manager
	pod    *v1.Pod
	labels map[string]string
	info   *podInfo // nil before it is first used
	tasks  []*podTask
}

func newPodSet(m *Manager, d *declared.Pod) *podSet {
	pod := d.Pod()
	return &podSet{m: m, pod: pod, labels: d.Labels(), tasks: make([]*podTask, 0, len(pod.Spec.Containers)+len(pod.Spec.InitContainers))}
}

// podInfo has the data that the tasks of a pod share. It is read-only.
type podInfo struct {
	podView  // of the added pod
	handlers probe.Pod
	status   StatusSource
}

func (p *podInfo) uid() types.UID { return types.UID(p.handlers.UID) }

// podTask is the task of a container with its data, in one allocation. It is the Source of the task: it
// derives the state of the container from the status of its pod.
type podTask struct {
	task      worker.Task
	container probe.Container
	pod       *podInfo
}

// task returns the task for a new worker of a container.
func (s *podSet) task(name string) *worker.Task {
	priorID := ""
	if status := containerStatus(&s.pod.Status, name); status != nil {
		priorID = status.ContainerID
	}
	return s.taskOf(name, priorID)
}

func (s *podSet) taskOf(name, priorID string) *worker.Task {
	for _, t := range s.tasks {
		if t.container.Name == name && t.task.PriorID == priorID {
			return &t.task
		}
	}
	if s.info == nil {
		s.info = &podInfo{podView: viewOf(s.pod), status: s.m.cfg.Status, handlers: probe.Pod{
			Namespace: s.pod.Namespace, Name: s.pod.Name, UID: string(s.pod.UID), Labels: maps.Clone(s.labels), Ports: podPorts(s.pod),
		}}
	}
	spec, sidecar := declared.Container(s.pod, name)
	t := &podTask{container: probe.Container{Name: name, Ports: ports(spec)}, pod: s.info}
	t.task.Subject = results.Subject{Namespace: s.pod.Namespace, Pod: s.pod.Name, PodUID: s.info.handlers.UID, Container: name}
	t.task.Pod, t.task.Container, t.task.Source = &s.info.handlers, &t.container, t
	t.task.Sidecar, t.task.PriorID = sidecar, priorID
	if r, ok := s.m.cfg.Status.(RestartSource); ok {
		_ = s.m.call("RestartSource.Restarts", func() error {
			t.task.NoRestart = !r.Restarts(s.pod, spec)
			return nil
		})
	}
	s.tasks = append(s.tasks, t)
	return &t.task
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

// digest identifies the config of a running probe. The manager only compares configs for equality. A digest
// depends on the seed of the manager, so nobody can construct two configs with the same digest.
type digest uint64

func (m *Manager) digestOf(config []byte) digest { return digest(maphash.Bytes(m.seed, config)) }

// tag has the data that the manager keeps of a running probe from the annotation. It is read-only. Other
// probes have a digest instead, which takes 8 bytes.
type tag struct {
	config string // JSON, with references to secrets
	mark   string // see bound
	path   *field.Path
	// written and combined are the fields of [declared.Probe].
	written  []string
	combined *declared.Combined
}

// tagOf returns the tag of a running probe; annotated is false if the probe does not come from the
// annotation.
func tagOf(p group.Probe) (t tag, annotated bool) {
	if t, ok := p.Tag.(*tag); ok {
		return *t, true
	}
	return tag{}, false
}

// annotatedConfig returns the config of a running probe from the annotation.
func annotatedConfig(p group.Probe) ProbeConfig {
	t, _ := tagOf(p)
	return ProbeConfig{
		Path: t.path, Container: p.Task.Subject.Container, Kind: p.Kind, Handler: p.Name, Config: []byte(t.config),
		Target: p.Target, Spec: p.Spec, Paused: p.Paused, Refers: true, Written: t.written,
		Combined: t.combined,
	}
}

// sameHandler reports whether a running probe has the handler, config and target of c.
func (m *Manager) sameHandler(p group.Probe, c *ProbeConfig) bool {
	if p.Name != c.Handler || p.Target != c.Target {
		return false
	}
	if t, annotated := tagOf(p); annotated {
		return t.config == string(c.Config)
	}
	return p.Tag == m.digestOf(c.Config)
}

// probeOf returns the group's probe for c.
func (m *Manager) probeOf(c ProbeConfig, b bound, t *worker.Task) group.Probe {
	p := group.Probe{Task: t, Kind: c.Kind, Handler: b.handler, Name: c.Handler, Spec: c.Spec, Target: c.Target, Paused: c.Paused}
	if c.Refers {
		p.Tag = &tag{string(c.Config), b.mark, c.Path, c.Written, c.Combined}
	} else {
		p.Tag = m.digestOf(c.Config)
	}
	return p
}

// bound is a handler bound to a probe.
type bound struct {
	handler probe.Handler
	reused  bool   // the handler is the running probe's
	mark    string // digest of the config with its references resolved; "" without references
}

// current is a probe with its version.
type current struct {
	group.Probe
	version seam.Version
}

func (m *Manager) current(id probeID) (now current, running bool) {
	now.Probe, now.version, running = seam.Reveal(m.group).Current(id)
	return now, running
}

// put starts the probe of c, or changes it if it is running. It retries if another goroutine has started,
// changed or removed the probe meanwhile.
func (m *Manager) put(set *podSet, c ProbeConfig) error {
	moved := false
	for {
		var done bool
		var err error
		if now, running := m.current(idOf(&c, set.pod.UID)); !running {
			done, err = m.add(set, c)
		} else {
			moved = set.reshape(now) || moved
			done, err = m.change(now, c, moved)
		}
		if done || err != nil {
			return err
		}
	}
}

// add starts the worker of one probe. It returns false if another goroutine has started it.
func (m *Manager) add(set *podSet, c ProbeConfig) (started bool, err error) {
	b, err := m.prepare(c)
	if err != nil {
		return false, err
	}
	err = m.group.Add(set.pod.UID, m.probeOf(c, b, set.task(c.Container)))
	if err == nil {
		return true, nil
	}
	m.release(b.handler)
	switch {
	case errors.Is(err, group.ErrExists):
		return false, nil
	case errors.Is(err, group.ErrClosed):
		return false, ErrClosed
	}
	if inUse, ok := errors.AsType[*worker.InUseError](err); ok {
		err = inUse
	}
	return false, &declared.Error{Path: c.FieldPath(), Err: err}
}

// change changes a running probe to c. moved means that its target may have changed. It returns false if
// the probe has ended, or was changed by another goroutine.
func (m *Manager) change(was current, c ProbeConfig, moved bool) (done bool, err error) {
	t, _ := tagOf(was.Probe)
	next := bound{was.Handler, true, t.mark}
	switch same := m.sameHandler(was.Probe, &c) && was.Spec == c.Spec && was.Paused == c.Paused; {
	case same && !moved:
		return true, nil
	case !same:
		if next, err = m.rebind(was, c); err != nil {
			return false, err
		}
	}
	return m.changeTo(was, c, next, moved), nil
}

// rebind returns a handler bound to c. It reuses the handler of was if config and secrets are unchanged.
func (m *Manager) rebind(was current, c ProbeConfig) (bound, error) {
	r, err := m.resolve(c)
	if err != nil {
		return bound{}, err
	}
	t, _ := tagOf(was.Probe)
	same := m.sameHandler(was.Probe, &c)
	if same && r.mark == t.mark {
		return bound{was.Handler, true, t.mark}, nil
	}
	next, err := m.bind(c, r)
	if err == nil && same { // only the secrets have changed, so the state is inherited, unless Inherit panics
		_ = m.call("Inheritor", func() error { probe.Inherit(next.handler, was.Handler); return nil })
	}
	return next, err
}

// changeTo changes a running probe from was to next. It returns false in the same cases as change.
func (m *Manager) changeTo(was current, c ProbeConfig, next bound, moved bool) (done bool) {
	keep := seam.Keep{Run: m.sameHandler(was.Probe, &c), Attempt: next.reused && !moved}
	done = seam.Reveal(m.group).Replace(was.version, m.probeOf(c, next, was.Task), keep)
	switch {
	case next.reused:
	case done:
		m.release(was.Handler)
	default:
		m.release(next.handler)
	}
	return done
}

// reshape gives a probe the new labels, ports and restart policies of the pod. It reports whether the ports
// have changed, which may change the target.
func (s *podSet) reshape(now current) (moved bool) {
	old := now.Task
	before, ok := old.Source.(*podTask)
	if !ok {
		return false
	}
	t := s.taskOf(old.Subject.Container, old.PriorID) // PriorID is unchanged, because the agent was not restarted
	if before.pod.equal(&s.info.podView) && reflect.DeepEqual(old.Pod, t.Pod) && reflect.DeepEqual(old.Container, t.Container) && old.NoRestart == t.NoRestart {
		return false
	}
	seam.Reveal(s.m.group).Reshape(now.version, t)
	return !slices.Equal(old.Container.Ports, t.Container.Ports)
}

func (m *Manager) prepare(c ProbeConfig) (bound, error) {
	r, err := m.resolve(c)
	if err != nil {
		return bound{}, err
	}
	return m.bind(c, r)
}

// bind binds the handler of a probe to its config.
func (m *Manager) bind(c ProbeConfig, r resolved) (bound, error) {
	if c.Combined != nil {
		return m.bindChecks(c, r)
	}
	handler, err := m.prepareHandler(c, r.config)
	if err != nil {
		return bound{}, &declared.Error{Path: c.FieldPath(), Err: r.secrets.Error(err)}
	}
	if c.Written != nil {
		handler = writtenHandler{handler, c.Written}
	}
	b := bound{mark: r.mark}
	err = m.call("SecretChecker", func() (err error) {
		b.handler, err = r.secrets.Bind(handler)
		return err
	})
	if err != nil {
		m.release(handler)
		return bound{}, &declared.Error{Path: c.FieldPath(), Err: r.secrets.Error(err)}
	}
	return b, nil
}

// writtenHandler is a handler of a command whose description has the command as written, without the values
// of its variables. The pod of such a probe is shown with masked values too.
type writtenHandler struct {
	handler probe.Handler
	command []string
}

var (
	_ probe.Wrapper   = writtenHandler{}
	_ probe.Describer = writtenHandler{}
)

// Probe implements [probe.Handler].
func (w writtenHandler) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	return w.handler.Probe(ctx, req)
}

// Unwrap implements [probe.Wrapper].
func (w writtenHandler) Unwrap() probe.Handler { return w.handler }

// Describe implements [probe.Describer].
func (w writtenHandler) Describe(name string, _ *probe.Request) string {
	return strings.TrimSpace(name + " " + explain.ShortCommand(w.command))
}

// prepareHandler prepares the handler of c. It converts a panic into an error, so that one handler cannot
// end the program.
func (m *Manager) prepareHandler(c ProbeConfig, config []byte) (h probe.Handler, err error) {
	err = m.call(fmt.Sprintf("handler %q", c.Handler), func() (err error) {
		if c.Bind != nil {
			h, err = c.Bind()
		} else {
			h, err = m.cfg.Handlers.Prepare(c.Handler, config, c.Target)
		}
		if h == nil && err == nil {
			err = fmt.Errorf("handler %q: neither a handler nor an error was returned", c.Handler)
		}
		return err
	})
	return h, err
}

var _ worker.Publisher = (*podTask)(nil)

// State implements [worker.Source].
func (t *podTask) State() worker.State {
	status, ok := t.pod.status.PodStatus(t.pod.uid())
	if !ok {
		return worker.State{}
	}
	return t.stateIn(&status)
}

// Publish implements [worker.Publisher]. It ignores set, which is the SetState of its own task.
func (t *podTask) Publish(func(worker.State)) (stop func(), ok bool) {
	p, ok := t.pod.status.(StatusPublisher)
	if !ok {
		return nil, false
	}
	return p.WatchStatus(t.pod.uid(), t.publish), true
}

func (t *podTask) publish(status *v1.PodStatus) {
	if status == nil {
		t.task.SetState(worker.State{})
	} else {
		t.task.SetState(t.stateIn(status))
	}
}

func (t *podTask) stateIn(status *v1.PodStatus) worker.State {
	state := worker.State{
		Found:    true,
		PodEnded: status.Phase == v1.PodFailed || status.Phase == v1.PodSucceeded,
		Deleting: t.pod.deleting,
		PodIP:    status.PodIP,
	}
	c := containerStatus(status, t.container.Name)
	if c == nil {
		return state
	}
	state.ContainerID = c.ContainerID
	state.Started = c.Started != nil && *c.Started
	if c.State.Running != nil {
		state.Running, state.StartedAt = true, c.State.Running.StartedAt.Time
		return state
	}
	state.Final = c.State.Terminated != nil &&
		!t.pod.restartPolicyOf(t.container.Name).restarts(t.pod.policy, c.State.Terminated.ExitCode) &&
		!t.pod.allRestart(status)
	return state
}

// containerStatus returns the status of the container called name: of a regular container with an ID, or
// else of an init container; nil if there is none.
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
