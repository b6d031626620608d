// Package manager is the kubelet's probe manager as a library.
//
// A [Manager] keeps a worker for each probe of its pods. The three results caches have the decided results,
// and [Manager.UpdatePodStatus] writes them into the status of a pod. The methods of the kubelet's manager
// keep their names, parameters and meanings. [Compat] lists the deliberate differences.
//
// Read pod.go first: it starts and changes the probes of a pod, which package declared has parsed.
// status.go computes the status of its containers. In the core, only these two packages import the
// Kubernetes API, and managertest and podtest, which are for tests.
package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Compat is a set of switches. Each switch disables a fix of a kubelet bug.
type Compat = probe.Compat

// KubeletV1_35 and the others disable every fix that the given release does not have.
const (
	KubeletV1_35 = probe.CompatKubeletV1_35
	KubeletV1_36 = probe.CompatKubeletV1_36
	KubeletV1_37 = probe.CompatKubeletV1_37
)

// ErrClosed is the error of the methods of a manager after [Manager.Shutdown]. It is [group.ErrClosed].
var ErrClosed = group.ErrClosed

// StatusSource returns the current status of pods. It is called at every tick, by the goroutine of the tick
// and therefore concurrently, with no lock held. It must answer from memory; see [StatusPublisher] for a
// cheaper way. The manager does not modify the returned status.
type StatusSource interface {
	PodStatus(uid types.UID) (v1.PodStatus, bool)
}

// StatusPublisher is a [StatusSource] that publishes each change of a pod's status, instead of being called
// at every tick.
// See RATIONALE.md, "Why is the state of a container published, and not looked up at each tick?"
type StatusPublisher interface {
	StatusSource
	// WatchStatus calls publish with the status of a pod, if it has one, and then with every new status in
	// order, or nil after its removal, until stop is called. publish must not be called after stop has
	// returned. publish does not modify the status, does not block, and may be called with locks held.
	//
	// AddPod calls WatchStatus once for each container with probes. stop is called when the last probe of
	// the container has ended, for example by RemovePod. Both are called with the lock of the container
	// held, and no other lock of the manager. So they must not call methods of the manager that add or stop
	// probes.
	WatchStatus(uid types.UID, publish func(*v1.PodStatus)) (stop func())
}

// RestartSource is a [StatusSource] for containers that are not restarted when a probe fails. Liveness and
// startup probes of such a container continue after a failure, and the Failure stays decided until
// SuccessThreshold successes. Those of other containers are on hold until there is a new container ID.
// See RATIONALE.md, "What happens to a liveness probe of a target that prober cannot restart?"
type RestartSource interface {
	StatusSource
	// Restarts reports whether the container is restarted after its liveness or startup probe has failed.
	// The result must depend on the pod's spec alone. AddPod and UpdatePod call Restarts at most once for
	// each container, with no lock held.
	Restarts(pod *v1.Pod, container *v1.Container) bool
}

// Handlers finds handlers by name and binds them to a probe, like handlers.Registry. If a handler returned
// by Prepare is a [probe.Releaser], it is released when its probe has ended. AddPod, UpdatePod and
// RefreshSecrets call Prepare with no lock held, once for each new or changed probe. Ticks never call it.
// See RATIONALE.md, "Why does the core not know its handlers, and why is a config JSON?"
type Handlers interface {
	Prepare(name string, config []byte, target probe.Target) (probe.Handler, error)
}

// Recorder records events, like record.EventRecorder of client-go. A separate goroutine calls it for one
// event at a time, with no lock held. It delays no probe: if 4096 events wait for it, further events are
// dropped.
type Recorder interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// ProbeConfig is one probe of a pod.
type ProbeConfig = declared.Probe

// Config configures a [Manager]. Only Status and Handlers are required.
type Config struct {
	Status   StatusSource // may be a [StatusPublisher], and a [RestartSource]
	Handlers Handlers     // by name: a handlers.Registry
	Recorder Recorder     // nil: no events; may be a [TargetRecorder]

	// Results caches that the caller shares. New makes those that are nil. Only the workers change them: if
	// the caller removes a result, it is not stored again before it changes.
	Liveness, Readiness, Startup *results.Cache

	Observers []worker.Observer // observe every tick of every probe
	Logger    *slog.Logger      // nil: slog's default

	// RestartGrace is how long before the start of the manager a container must have started to count as
	// probed by an earlier agent. 0 means the kubelet's 10 s.
	RestartGrace time.Duration
	// History is the memory budget in bytes for the past ticks of all probes; see [Manager.Probes]. 0 keeps
	// only the last tick of each probe, with 256 bytes of its output.
	History int64
	// ResolveSecret returns the value of a reference in the config of a probe, such as ${file:/run/secret}
	// (source "file") or ${env:NAME} (source "env"). It is called when a probe is added or changed, and by
	// [Manager.RefreshSecrets], never at a tick. If it is nil, a reference is an error. The author of a pod
	// chooses source, name, and where the value is sent. So ResolveSecret must return an error unless the
	// reference is on a list of allowed ones.
	ResolveSecret func(source, name string) (string, error)

	// Compat restores known bugs of the kubelet; 0 fixes all of them.
	Compat Compat
	// ContainerScoped begins the schedule of a probe with its container. The first attempt is at the end of
	// the initial delay, or at once without one. Further attempts follow at multiples of the period from
	// there. Liveness and readiness begin when the published status has Started set, if that is later.
	//
	// Status must be a [StatusPublisher]; otherwise a new container is only noticed at the next multiple of
	// the period. The first attempts of containers that ran before the manager was made are spread, as
	// without ContainerScoped.
	ContainerScoped bool
}

// Key identifies a probe and its worker.
type Key struct {
	PodUID    types.UID
	Container string
	Kind      probe.Kind
}

// probeID is a [Key] in the form of the group.
type probeID = group.ID[types.UID]

func idOf(c *ProbeConfig, uid types.UID) probeID {
	return probeID{Key: uid, Task: c.Container, Kind: c.Kind}
}

func nameOf(id probeID) declared.Name { return declared.Name{Container: id.Task, Kind: id.Kind} }

func (k Key) id() probeID { return probeID{Key: k.PodUID, Task: k.Container, Kind: k.Kind} }

// Manager owns the workers. It is safe for concurrent use.
type Manager struct {
	cfg    Config
	group  *group.Group[types.UID] // by pod
	events *events
	seed   maphash.Seed // of digest values

	mu      sync.RWMutex
	records map[types.UID]*podRecord
}

// New returns a manager without pods.
func New(cfg Config) (*Manager, error) {
	if cfg.Status == nil || cfg.Handlers == nil {
		return nil, errors.New("manager: Config.Status and Config.Handlers are required")
	}
	m := &Manager{cfg: cfg, records: make(map[types.UID]*podRecord), seed: maphash.MakeSeed()}
	m.events = &events{recorder: cfg.Recorder, m: m}
	g, err := group.New[types.UID](group.Config{
		Liveness: cfg.Liveness, Readiness: cfg.Readiness, Startup: cfg.Startup, Observers: cfg.Observers, Event: m.event,
		Logger: cfg.Logger, RestartGrace: cfg.RestartGrace, History: cfg.History, Compat: cfg.Compat,
		ContainerScoped: cfg.ContainerScoped,
	})
	if err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	seam.Reveal(g).UsePodTerms()
	m.group, m.cfg.RestartGrace = g, cmp.Or(cfg.RestartGrace, 10*time.Second)
	return m, nil
}

// AddPod starts a worker for every probe of pod that has none. It starts the probes of regular containers
// first, then of restartable init containers, each in the order startup, readiness, liveness. It may
// be called again at every sync. It does not change a running probe; see [Manager.UpdatePod].
//
// typed are additional probes that the pod does not declare, for an agent that binds handlers in Go. They
// replace the pod's probes of the same container and kind.
//
// pod is neither modified nor kept. ctx limits the call, not the probes. The error joins an error for every
// probe that could not be started: a [*field.Error] or a [*declared.Error], with the path of its field. The
// other probes are started. A probe that could not be started counts as not run yet: its container is not
// ready, or has not started, until a later call starts the probe.
// See RATIONALE.md, "What becomes of a probe that cannot be started?"
func (m *Manager) AddPod(ctx context.Context, pod *v1.Pod, typed ...ProbeConfig) error {
	return m.Add(ctx, declared.Parse(pod, typed...))
}

// Add is [Manager.AddPod] for probes that are already parsed.
func (m *Manager) Add(ctx context.Context, d *declared.Pod) error {
	pod := d.Pod()
	if pod.UID == "" {
		return errNoUID(pod)
	}
	set, t := newPodSet(m, d), newAttempt(d)
	stops, skips := m.cfg.Compat.Has(probe.CompatAddPodStops), m.cfg.Compat.Has(probe.CompatAddPodSkips)
	skipped := "" // name of a container
	for i, c := range t.Probes {
		if ctx.Err() != nil {
			t.fail(context.Cause(ctx), t.Probes[i:]...)
			break
		}
		if skipped != "" && c.Container == skipped {
			continue
		}
		if m.group.Has(idOf(&c, pod.UID)) {
			if stops || skips {
				t.refused = append(t.refused, m.record(pod.UID).refusals()...)
			}
			if stops {
				break
			}
			if skips {
				skipped = c.Container
			}
			continue
		}
		if _, err := m.add(set, c); err != nil {
			t.fail(err, c)
		}
	}
	m.declare(d, t.refused)
	return errors.Join(t.errs...)
}

// UpdatePod adds, changes and removes workers to match the probes of pod and typed.
//
// A probe with the same handler and config keeps its run of equal results. If its target and timeout are
// unchanged too, it keeps the attempt under way. Otherwise the attempt is cancelled and not counted, and a
// new one begins at once. A liveness or startup probe that is on hold after a failure is probed again. New
// thresholds and periods take effect at once. From now on the ports, labels and restart policies of pod are
// used. A probe with an error continues unchanged. docs/embed/changing-probes.md has a table of the fields.
func (m *Manager) UpdatePod(ctx context.Context, pod *v1.Pod, typed ...ProbeConfig) error {
	return m.Apply(ctx, declared.Parse(pod, typed...))
}

// Apply is [Manager.UpdatePod] for probes that are already parsed. A probe refused by [declared.Pod.Refuse]
// is never started, and it ends before any other probe is started or changed.
func (m *Manager) Apply(ctx context.Context, d *declared.Pod) error {
	pod := d.Pod()
	if pod.UID == "" {
		return errNoUID(pod)
	}
	set, t := newPodSet(m, d), newAttempt(d)
	if len(t.Forbidden) > 0 {
		m.declare(d, slices.Concat(t.refused, m.record(pod.UID).refusals())) // before they end
		m.group.RemoveFunc(pod.UID, func(id probeID) bool { return slices.Contains(t.Forbidden, nameOf(id)) })
	}
	desired := make(map[declared.Name]bool)
	for i, c := range t.Probes {
		if ctx.Err() != nil {
			t.fail(context.Cause(ctx), t.Probes[i:]...)
			break
		}
		desired[c.Name()] = true
		if old, running := m.group.Current(idOf(&c, pod.UID)); running && len(t.Invalid) > 0 && !c.Refers {
			if _, annotated := tagOf(old); annotated {
				continue // the annotation may still declare the running probe
			}
		}
		if err := m.put(set, c); err != nil {
			t.fail(err, c)
		}
	}
	m.declare(d, t.refused)
	m.group.RemoveFunc(pod.UID, func(id probeID) bool {
		name := nameOf(id)
		return !desired[name] && !slices.Contains(t.refused, name)
	})
	return errors.Join(t.errs...)
}

// attempt is one try to start the probes of a [declared.Pod].
type attempt struct {
	*declared.List
	refused []declared.Name // probes that do not run, or continue unchanged
	errs    []error
}

func newAttempt(d *declared.Pod) *attempt {
	l := d.List()
	return &attempt{l, slices.Concat(l.Invalid, l.Forbidden), slices.Clone(l.Errors)}
}

// fail records err, and that the probes of configs could not be started.
func (a *attempt) fail(err error, configs ...ProbeConfig) {
	a.errs = append(a.errs, err)
	for i := range configs {
		a.refused = append(a.refused, configs[i].Name())
	}
}

func errNoUID(pod *v1.Pod) error { return fmt.Errorf("pod %s/%s has no UID", pod.Namespace, pod.Name) }

// StopLivenessAndStartup stops the liveness and startup workers of a terminating pod. Readiness is probed
// until the end. A container whose startup probe has succeeded stays started.
func (m *Manager) StopLivenessAndStartup(pod *v1.Pod) {
	names := containerNames(pod, !m.cfg.Compat.Has(probe.CompatStopSkipsSidecars)) // kubernetes#141766
	m.keepStarted(pod.UID, names)
	m.group.RemoveFunc(pod.UID, func(id probeID) bool { return id.Kind != probe.Readiness && names[id.Task] })
}

// RemovePod stops the workers of the containers in pod. When it returns, they record nothing, and their
// decided results are removed.
func (m *Manager) RemovePod(pod *v1.Pod) {
	names := containerNames(pod, true)
	m.updateRecord(pod.UID, func(r *podRecord) *podRecord { return r.without(names) })
	m.group.RemoveFunc(pod.UID, func(id probeID) bool { return names[id.Task] })
}

// CleanupPods stops the workers of all pods that are not in desired.
func (m *Manager) CleanupPods(desired map[types.UID]sets.Empty) {
	gone := func(uid types.UID) bool { _, ok := desired[uid]; return !ok }
	m.mu.Lock()
	maps.DeleteFunc(m.records, func(uid types.UID, _ *podRecord) bool { return gone(uid) })
	m.mu.Unlock()
	for _, uid := range m.group.Keys() {
		if gone(uid) {
			m.group.Remove(uid)
		}
	}
}

// Subscribe returns all decided results, and then their changes until ctx ends. A slow reader blocks no
// worker, and gets the newest state of every container; see [results.Subscribe].
func (m *Manager) Subscribe(ctx context.Context) iter.Seq[results.Update] {
	return seam.Reveal(m.group).Updates(ctx)
}

// Results returns the cache of the decided results for kind.
func (m *Manager) Results(kind probe.Kind) *results.Cache { return m.group.Results(kind) }

// Stalled returns how long a probe has been due while no other probe was run; see [group.Group.Stalled]. It
// is meant for a watchdog of the program.
func (m *Manager) Stalled() time.Duration { return m.group.Stalled() }

// Trigger makes a probe tick now.
func (m *Manager) Trigger(key Key) error { return with(key, m.group.Trigger) }

// Pause stops the attempts of a probe until [Manager.Resume]. Its decided result stays.
func (m *Manager) Pause(key Key) error { return with(key, m.group.Pause) }

// Force is Pause with the result of gate: [worker.ForcedUp], [worker.ForcedDown] or [worker.Drained], for
// readiness probes. Pause and Resume end it: then the decided result is again the one of before.
func (m *Manager) Force(key Key, gate worker.Gate) error {
	err := m.group.Force(key.id(), gate)
	if _, invalid := errors.AsType[*group.FieldError](err); invalid {
		return err
	}
	return with(key, func(probeID) error { return err })
}

// Resume ends a pause: the probe ticks now.
func (m *Manager) Resume(key Key) error { return with(key, m.group.Resume) }

func with(key Key, do func(probeID) error) error {
	if do(key.id()) != nil {
		return fmt.Errorf("no %s probe of container %q in pod %s", key.Kind, key.Container, key.PodUID)
	}
	return nil
}

// Close is [Manager.Shutdown] without a time limit.
func (m *Manager) Close() error { return m.Shutdown(context.Background()) }

// Shutdown stops all workers. It cancels the attempts under way, and waits for their end and until the
// recorder has recorded all events. If ctx ends first, because a handler, an observer or the recorder does
// not return, the error names the probes that are still under way; their results are not counted.
func (m *Manager) Shutdown(ctx context.Context) error {
	if err := m.group.Shutdown(ctx); err != nil {
		return fmt.Errorf("manager: %w", err)
	}
	if err := m.events.drained(ctx); err != nil {
		return fmt.Errorf("manager: the recorder has not recorded all events: %w", err)
	}
	return nil
}

func containerNames(pod *v1.Pod, sidecars bool) map[string]bool {
	names := make(map[string]bool)
	for c, sidecar := range declared.Containers(pod) {
		if sidecars || !sidecar {
			names[c.Name] = true
		}
	}
	return names
}
