// Package manager is the kubelet's probe manager as a library.
//
// A [Manager] keeps a worker for each probe of its pods. The three results caches have the
// decided results, and [Manager.UpdatePodStatus] writes them into the status of a pod. The
// methods of the kubelet's manager keep their names, parameters and meanings. [Compat] lists
// the deliberate differences.
//
// Read pod.go first: it starts and changes the probes of a pod, which package declared has read.
// status.go computes the status of its containers. These two packages of the core alone import the
// Kubernetes API.
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

// Compat is a set of switches, each of which turns off a fix of a kubelet bug.
type Compat = probe.Compat

// KubeletV1_35 and so on turn every fix off.
const (
	KubeletV1_35 = probe.CompatKubeletV1_35
	KubeletV1_36 = probe.CompatKubeletV1_36
	KubeletV1_37 = probe.CompatKubeletV1_37
)

// ErrClosed is the error of the methods of a manager after [Manager.Shutdown]. It is [group.ErrClosed].
var ErrClosed = group.ErrClosed

// StatusSource returns the current status of pods. It is called at every tick, by the goroutine of
// the tick and so concurrently, with no lock held, and must answer from memory; see
// [StatusPublisher] for a cheaper way. What it returns is not modified.
type StatusSource interface {
	PodStatus(uid types.UID) (v1.PodStatus, bool)
}

// StatusPublisher is a [StatusSource] that is not called at every tick: it publishes the status of a
// pod when that changes.
type StatusPublisher interface {
	StatusSource
	// WatchStatus calls publish with the status of a pod, if it has one, and then with every new
	// one in order, nil if it is removed, until stop is called. publish is not called after
	// stop has returned. It does not modify the status, does not block, and may be called with
	// locks held. WatchStatus is called by AddPod, once for each container with probes. stop is
	// called when the last probe of the container has ended, by RemovePod for example. Both are
	// called with no lock of the manager held but that of the container: they must not call
	// methods of the manager that add or stop probes.
	WatchStatus(uid types.UID, publish func(*v1.PodStatus)) (stop func())
}

// RestartSource is a [StatusSource] with containers that are not restarted when a probe fails.
// The liveness and startup probes of such a container go on after a failure, which stays
// decided until SuccessThreshold successes. All others hold until there is a new container ID.
type RestartSource interface {
	StatusSource
	// Restarts reports whether the container is restarted when its liveness or startup
	// probe has failed. It depends on the pod's spec alone: AddPod and UpdatePod call it, at
	// most once for each container, with no lock held.
	Restarts(pod *v1.Pod, container *v1.Container) bool
}

// Handlers finds handlers by name and binds them to a probe, as handlers.Registry does. A
// handler that Prepare returned is released when its probe has ended, if it is a
// [probe.Releaser]. AddPod, UpdatePod and RefreshSecrets call Prepare with no lock held, once for
// each probe that is started or has changed; never a tick.
type Handlers interface {
	Prepare(name string, config []byte, target probe.Target) (probe.Handler, error)
}

// Recorder records events, as record.EventRecorder of client-go does. It is called by a goroutine
// of its own, for one event after the other, with no lock held. It delays no probe: while 4096
// events wait for it, further ones are dropped.
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

	// The results caches, for a caller that shares them. New makes those that are nil. Only the
	// workers change them: a result that the caller removes is not stored again before it changes.
	Liveness, Readiness, Startup *results.Cache

	Observers []worker.Observer // observe every tick of every probe
	Logger    *slog.Logger      // nil: slog's default

	// RestartGrace is how long before the start of the manager a container must have started
	// to count as probed by an earlier agent. 0 means the kubelet's 10 s.
	RestartGrace time.Duration
	// History bounds the bytes of past ticks of all probes that are kept for
	// [Manager.Probes]. 0 keeps only the last tick of each probe, with 256 bytes of its
	// output.
	History int64
	// ResolveSecret returns the value of a reference such as ${file:/run/secret} (source
	// "file") or ${env:NAME} (source "env") in the config of a probe. It is called when a
	// probe is added or changed, and by [Manager.RefreshSecrets]; never at a tick. Nil makes
	// such a reference an error. The author of a pod chooses source, name, and where the
	// value is sent. So ResolveSecret must return an error for everything that is not on a
	// list of allowed references.
	ResolveSecret func(source, name string) (string, error)

	// Compat brings known bugs of the kubelet back; 0 fixes all of them.
	Compat Compat
	// ContainerScoped begins the schedule of a probe with its container: the first attempt comes when the initial delay
	// ends, at once without one, and further ones at multiples of the period from there. Liveness and readiness begin when
	// the published status says that the container has started, if that is later. Status must be a [StatusPublisher]: else
	// a container is found at the next multiple of the period. The first attempts of containers that ran before the manager
	// was made are spread, as without ContainerScoped.
	ContainerScoped bool
}

// Key identifies a probe and its worker.
type Key struct {
	PodUID    types.UID
	Container string
	Kind      probe.Kind
}

// probeID is a [Key] as the group has it.
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
	seed   maphash.Seed // of digests

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
	seam.Of(g).SpeakOfPods()
	m.group, m.cfg.RestartGrace = g, cmp.Or(cfg.RestartGrace, 10*time.Second)
	return m, nil
}

// AddPod starts a worker for every probe of pod that has none yet. It starts those of the
// containers first, then those of the restartable init containers, each in the order startup,
// readiness, liveness. It may be called again at every sync. It does not change a probe that
// is running; see [Manager.UpdatePod].
//
// typed are probes that the pod does not declare itself, for an agent that binds handlers in Go.
// They replace those of the pod for the same container and kind.
//
// pod is not modified and not kept. ctx bounds the call, not the probes. The error joins one
// for every probe that could not be started: a [*field.Error], or a [*declared.Error], with the path of
// its field. The other probes are
// started. A probe that could not be started counts as one that has not run yet: its container
// is not ready, or has not started, until a later call starts it.
func (m *Manager) AddPod(ctx context.Context, pod *v1.Pod, typed ...ProbeConfig) error {
	return m.Add(ctx, declared.Parse(pod, typed...))
}

// Add is [Manager.AddPod] with probes that are parsed already.
func (m *Manager) Add(ctx context.Context, d *declared.Pod) error {
	pod := d.Pod()
	if pod.UID == "" {
		return errNoUID(pod)
	}
	set, t := newPodSet(m, pod), try(d)
	stops, skips := m.cfg.Compat.Has(probe.CompatAddPodStops), m.cfg.Compat.Has(probe.CompatAddPodSkips)
	skipped := "" // container
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

// UpdatePod adds, changes and removes workers so that they match the probes of pod and typed. A probe
// with the same handler and config keeps its run of equal results, and one whose handler, config, target and timeout are
// the same its attempt under way; else that is cancelled, not counted, and made again at once. A liveness or startup
// probe that is on hold after a failure is probed again. New thresholds and periods take effect at once. From now on
// pod gives ports, labels and restart policies. A probe with an error goes on as it was. docs/embed/changing-probes.md
// has a table of the fields.
func (m *Manager) UpdatePod(ctx context.Context, pod *v1.Pod, typed ...ProbeConfig) error {
	return m.Apply(ctx, declared.Parse(pod, typed...))
}

// Apply is [Manager.UpdatePod] with probes that are parsed already. A probe that [declared.Pod.Refuse] took
// out is never started, and ends before any other one is started or changed.
func (m *Manager) Apply(ctx context.Context, d *declared.Pod) error {
	pod := d.Pod()
	if pod.UID == "" {
		return errNoUID(pod)
	}
	set, t := newPodSet(m, pod), try(d)
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
				continue // the annotation may still have the probe that is running
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

// attempt starts the probes of a [declared.Pod].
type attempt struct {
	*declared.List
	refused []declared.Name // that do not run, or go on as they were
	errs    []error
}

func try(d *declared.Pod) *attempt {
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

// StopLivenessAndStartup stops the liveness and startup workers of a pod that is terminating.
// Readiness is probed until the end. A container whose startup probe had succeeded stays started.
func (m *Manager) StopLivenessAndStartup(pod *v1.Pod) {
	names := containerNames(pod, !m.cfg.Compat.Has(probe.CompatStopSkipsSidecars)) // kubernetes#141766
	m.keepStarted(pod.UID, names)
	m.group.RemoveFunc(pod.UID, func(id probeID) bool { return id.Kind != probe.Readiness && names[id.Task] })
}

// RemovePod stops the workers of the containers in pod. When it returns they record nothing
// any more, and their decided results are removed.
func (m *Manager) RemovePod(pod *v1.Pod) {
	names := containerNames(pod, true)
	m.rerecord(pod.UID, func(r *podRecord) *podRecord { return r.without(names) })
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

// Subscribe returns all decided results, and then their changes until ctx ends. A slow reader
// blocks no worker, and gets the newest state of every container; see [results.Subscribe].
func (m *Manager) Subscribe(ctx context.Context) iter.Seq[results.Update] {
	return seam.Of(m.group).Updates(ctx)
}

// Results returns the cache of the decided results for kind.
func (m *Manager) Results(kind probe.Kind) *results.Cache { return m.group.Results(kind) }

// Stalled returns how long a probe has been due while no other one was run either: see
// [group.Group.Stalled]. A watchdog of the program may ask it.
func (m *Manager) Stalled() time.Duration { return m.group.Stalled() }

// Trigger makes a probe tick now.
func (m *Manager) Trigger(key Key) error { return with(key, m.group.Trigger) }

// Pause stops the attempts of a probe until [Manager.Resume]. Its decided result stays.
func (m *Manager) Pause(key Key) error { return with(key, m.group.Pause) }

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

// Shutdown stops all workers. It cancels the attempts under way and waits for their end, and
// until the recorder has recorded all events. When ctx ends first, because a handler, an
// observer or the recorder does not return, its error names the probes that are still under
// way; their results are not counted.
func (m *Manager) Shutdown(ctx context.Context) error {
	if err := m.group.Shutdown(ctx); err != nil {
		return fmt.Errorf("manager %w", err)
	}
	if err := m.events.drained(ctx); err != nil {
		return fmt.Errorf("manager left behind events that the recorder has not recorded: %w", err)
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
