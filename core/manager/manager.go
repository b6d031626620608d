// Package manager is the kubelet's probe manager as a library.
//
// A [Manager] keeps a worker for each probe of its pods. The three results caches have the
// decided results, and [Manager.UpdatePodStatus] writes them into the status of a pod. The
// methods of the kubelet's manager keep their names, parameters and meanings. [Compat] lists
// the deliberate differences.
//
// Read pod.go first: it starts and changes the probes of a pod. probes.go and annotation.go
// read them from the pod; status.go computes the status of its containers. This is the only
// package of the core that imports the Kubernetes API.
package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// Compat is a set of switches, each of which turns off a fix of a kubelet bug.
type Compat = probe.Compat

// KubeletV1_36 turns every fix off.
const KubeletV1_36 = probe.CompatKubeletV1_36

// ErrClosed is returned by the methods of a closed manager.
var ErrClosed = errors.New("manager is closed")

// StatusSource returns the current status of pods. It is called at every tick, by many
// goroutines, and must answer from memory. What it returns is not modified.
type StatusSource interface {
	PodStatus(uid types.UID) (v1.PodStatus, bool)
}

// RestartSource is a [StatusSource] with containers that are not restarted when a probe fails.
// The liveness and startup probes of such a container go on after a failure, which stays
// decided until SuccessThreshold successes. All others hold until there is a new container ID.
type RestartSource interface {
	StatusSource
	// Restarts reports whether the container is restarted when its liveness or startup
	// probe has failed. It depends on the pod's spec alone: it is called when probes are
	// added, and when [Manager.UpdatePod] changes the spec.
	Restarts(pod *v1.Pod, container *v1.Container) bool
}

// Handlers finds handlers by name and binds them to a probe, as handlers.Registry does. A
// handler that Prepare returned is released when its probe has ended, if it is a
// [probe.Releaser].
type Handlers interface {
	Prepare(name string, config []byte, target probe.Target) (probe.Handler, error)
}

// Recorder records events, as record.EventRecorder of client-go does. It is called by one
// goroutine at a time, and delays no probe.
type Recorder interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// Config configures a [Manager]. Only Status and Handlers are required.
type Config struct {
	Status   StatusSource // may be a [RestartSource]
	Handlers Handlers     // by name: a handlers.Registry
	Recorder Recorder     // nil: no events

	// The results caches, for a caller that shares them. New makes those that are nil.
	Liveness, Readiness, Startup *results.Cache

	Observers []worker.Observer // observe every tick of every probe
	Scheduler worker.Scheduler  // nil: [worker.RuntimeTimers]
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
}

// Key identifies a probe and its worker.
type Key struct {
	PodUID    types.UID
	Container string
	Kind      probe.Kind
}

// Manager owns the workers. It is safe for concurrent use.
type Manager struct {
	cfg    Config
	start  time.Time
	shared worker.Shared
	events *events
	memory *history
	owned  []*results.Cache // made by New

	mu      sync.RWMutex
	pods    map[types.UID][]*entry    // a pod has few probes: lists are smaller than maps, and as fast
	refused map[types.UID][]probeName // declared probes that could not be started
	closed  bool
	left    map[*entry]struct{} // taken from pods; a tick may be under way
	ending  sync.WaitGroup      // one for each entry of left
}

// entry is a worker and what it was made from.
type entry struct {
	key    Key
	worker *worker.Worker
	record *record
	shape  shape  // guarded by Manager.mu, and read-only once the entry was taken
	closed func() // closes the observers of the worker; set when the entry is taken
}

// shape is the current configuration of a probe.
type shape struct {
	config  ProbeConfig
	bound   *bound
	changes int // number of changes so far
}

// bound is a handler that is bound to a probe.
type bound struct {
	probe.Handler
	mark string // a digest of the config with its references resolved; "": there is no reference
}

// New returns a manager without pods.
func New(cfg Config) (*Manager, error) {
	if cfg.Status == nil || cfg.Handlers == nil {
		return nil, errors.New("manager: Config.Status and Config.Handlers are required")
	}
	m := &Manager{cfg: cfg, start: time.Now(), memory: &history{budget: cfg.History}}
	m.pods, m.refused, m.left = make(map[types.UID][]*entry), make(map[types.UID][]probeName), make(map[*entry]struct{})
	m.cfg.RestartGrace = cmp.Or(cfg.RestartGrace, 10*time.Second)
	for kind, cache := range map[probe.Kind]**results.Cache{
		probe.Liveness: &m.cfg.Liveness, probe.Readiness: &m.cfg.Readiness, probe.Startup: &m.cfg.Startup,
	} {
		if *cache == nil {
			*cache = results.New(kind)
			m.owned = append(m.owned, *cache)
		}
		if got := (*cache).Kind(); got != kind {
			return nil, fmt.Errorf("manager: the %s cache in Config is one for %s probes", kind, got)
		}
		m.shared.Results[kind] = *cache
	}
	m.events = &events{recorder: cfg.Recorder}
	m.shared.Scheduler, m.shared.Observers = cfg.Scheduler, cfg.Observers
	m.shared.Event = m.event
	m.shared.AgentStart, m.shared.RestartGrace = m.start, m.cfg.RestartGrace
	m.shared.Compat, m.shared.Logger = cfg.Compat, cfg.Logger
	return m, nil
}

// AddPod starts a worker for every probe of pod that has none yet. It starts those of the
// containers first, then those of the restartable init containers, each in the order startup,
// readiness, liveness. It may be called again at every sync. It does not change a probe that
// is running; see [Manager.UpdatePod].
//
// pod is not modified and not kept. ctx bounds the call, not the probes. The error joins one
// for every probe that could not be started, with the path of its field. The other probes are
// started. A probe that could not be started counts as one that has not run yet: its container
// is not ready, or has not started, until a later call starts it.
func (m *Manager) AddPod(ctx context.Context, pod *v1.Pod) error {
	if pod.UID == "" {
		return fmt.Errorf("pod %s/%s has no UID", pod.Namespace, pod.Name)
	}
	d, set := declaredBy(pod), newPodSet(m, pod)
	for i, c := range d.configs {
		if ctx.Err() != nil {
			d.fail(context.Cause(ctx), d.configs[i:]...)
			break
		}
		if m.entry(c.key(pod.UID)) != nil {
			if m.cfg.Compat.Has(probe.CompatAddPodStops) { // kubernetes#138928
				d.refused = append(d.refused, m.stillRefused(pod.UID, d.configs[i:])...)
				break
			}
			continue
		}
		if _, err := m.add(set, c); err != nil {
			d.fail(err, c)
		}
	}
	m.refuse(pod.UID, d.refused)
	return errors.Join(d.errs...)
}

// UpdatePod adds, changes and removes workers so that they match the probes of pod. A probe
// with the same handler and config keeps its run of equal results. A new period takes effect
// at once. The result of an attempt under way is dropped. From now on ports, labels and
// restart policies are those of pod. A probe with an error goes on as it was.
func (m *Manager) UpdatePod(ctx context.Context, pod *v1.Pod) error {
	d, set := declaredBy(pod), newPodSet(m, pod)
	invalid, desired := len(d.errs) > 0, make(map[Key]bool)
	for i, c := range d.configs {
		if ctx.Err() != nil {
			d.fail(context.Cause(ctx), d.configs[i:]...)
			break
		}
		key := c.key(pod.UID)
		desired[key] = true
		if old := m.entry(key); old != nil && invalid && !c.annotated && m.shape(old).config.annotated {
			continue // the annotation may still have the probe that is running
		}
		if err := m.put(set, c); err != nil {
			d.fail(err, c)
		}
	}
	m.refuse(pod.UID, d.refused)
	if len(d.errs) > 0 { // a probe with an error was not removed
		return errors.Join(d.errs...)
	}
	m.stopPod(pod.UID, func(k Key) bool { return !desired[k] })
	return nil
}

// StopLivenessAndStartup stops the liveness and startup workers of a pod that is terminating.
// Readiness is probed until the end.
func (m *Manager) StopLivenessAndStartup(pod *v1.Pod) {
	names := containerNames(pod, !m.cfg.Compat.Has(probe.CompatStopSkipsSidecars)) // kubernetes#141766
	m.stopPod(pod.UID, func(k Key) bool { return k.Kind != probe.Readiness && names[k.Container] })
}

// RemovePod stops the workers of the containers in pod. When it returns they record nothing
// any more, and their decided results are removed.
func (m *Manager) RemovePod(pod *v1.Pod) {
	names := containerNames(pod, true)
	m.forgive(pod.UID, names)
	m.stopPod(pod.UID, func(k Key) bool { return names[k.Container] })
}

// CleanupPods stops the workers of all pods that are not in desired.
func (m *Manager) CleanupPods(desired map[types.UID]sets.Empty) {
	gone := func(uid types.UID) bool { _, ok := desired[uid]; return !ok }
	m.mu.Lock()
	maps.DeleteFunc(m.refused, func(uid types.UID, _ []probeName) bool { return gone(uid) })
	stopped := slices.DeleteFunc(slices.Collect(maps.Keys(m.pods)), func(uid types.UID) bool { return !gone(uid) })
	m.mu.Unlock()
	for _, uid := range stopped {
		m.stopPod(uid, func(Key) bool { return true })
	}
}

// Subscribe returns all decided results, and then their changes until ctx ends. A slow reader
// blocks no worker, and gets the newest state of every container; see [results.Subscribe].
func (m *Manager) Subscribe(ctx context.Context) iter.Seq[results.Update] {
	return results.Subscribe(ctx, m.shared.Results[:]...)
}

// Results returns the cache of the decided results for kind.
func (m *Manager) Results(kind probe.Kind) *results.Cache { return m.shared.Results[kind] }

// Trigger makes a probe tick now.
func (m *Manager) Trigger(key Key) error { return m.with(key, (*worker.Worker).Trigger) }

// Pause stops the attempts of a probe until [Manager.Resume]. Its decided result stays.
func (m *Manager) Pause(key Key) error { return m.with(key, (*worker.Worker).Pause) }

// Resume ends a pause: the probe ticks now.
func (m *Manager) Resume(key Key) error { return m.with(key, (*worker.Worker).Resume) }

func (m *Manager) with(key Key, do func(*worker.Worker)) error {
	e := m.entry(key)
	if e == nil {
		return fmt.Errorf("no %s probe of container %q in pod %s", key.Kind, key.Container, key.PodUID)
	}
	do(e.worker)
	return nil
}

// Close is [Manager.Shutdown] without a time limit.
func (m *Manager) Close() error { return m.Shutdown(context.Background()) }

// Shutdown stops all workers. It cancels the attempts under way and waits for their end, and
// until the recorder has recorded all events. When ctx ends first, because a handler, an
// observer or the recorder does not return, its error names the probes that are still under
// way; their results are not counted.
func (m *Manager) Shutdown(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	uids := slices.Collect(maps.Keys(m.pods))
	m.mu.Unlock()
	var taken []*entry
	for _, uid := range uids { // stop all before waiting for any
		taken = append(taken, m.take(uid, func(*entry) bool { return true })...)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.end(taken)
		m.ending.Wait()
		m.events.draining.Wait()
	}()
	var err error
	select {
	case <-ended:
	case <-ctx.Done():
		err = m.leftBehind(ctx)
	}
	for _, c := range m.owned {
		c.Close()
	}
	return err
}

// leftBehind returns an error that says what Shutdown still waits for, or nil.
func (m *Manager) leftBehind(ctx context.Context) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var names []string
	for e := range m.left {
		i := e.worker.Info()
		names = append(names, fmt.Sprintf("%s/%s container %q %s (handler %q)", i.Namespace, i.Pod, i.Container, i.Kind, i.Handler))
	}
	if len(names) == 0 && m.events.idle() {
		return nil
	}
	what := "events that the recorder has not recorded"
	if len(names) > 0 {
		slices.Sort(names)
		what = "probes under way: " + strings.Join(names[:min(len(names), shownLeft)], ", ")
		if more := len(names) - shownLeft; more > 0 {
			what += fmt.Sprintf(" and %d more", more)
		}
	}
	return fmt.Errorf("manager left behind %s: %w", what, context.Cause(ctx))
}

// shownLeft is the largest number of probes that the error of [Manager.Shutdown] names.
const shownLeft = 10

// refuse stores the declared probes of a pod that could not be started.
func (m *Manager) refuse(uid types.UID, names []probeName) {
	m.mu.RLock()
	nothing := len(names) == 0 && m.refused[uid] == nil // the usual case needs no write lock
	m.mu.RUnlock()
	if nothing {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.refused, uid)
	if len(names) > 0 {
		m.refused[uid] = names
	}
}

// stillRefused returns the probes of configs that could not be started before.
func (m *Manager) stillRefused(uid types.UID, configs []ProbeConfig) (names []probeName) {
	for _, c := range configs {
		if _, refused := m.lookup(c.key(uid)); refused {
			names = append(names, probeName{c.Container, c.Kind})
		}
	}
	return names
}

// forgive removes the probes of the containers called names from refused.
func (m *Manager) forgive(uid types.UID, names map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := slices.DeleteFunc(slices.Clone(m.refused[uid]), func(n probeName) bool { return names[n.container] })
	delete(m.refused, uid)
	if len(kept) > 0 {
		m.refused[uid] = kept
	}
}

// lookup returns the entry of a probe. refused reports whether there is none because the
// probe could not be started.
func (m *Manager) lookup(key Key) (e *entry, refused bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if e := m.entryLocked(key); e != nil {
		return e, false
	}
	return nil, slices.Contains(m.refused[key.PodUID], probeName{key.Container, key.Kind})
}

func (m *Manager) entry(key Key) *entry {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.entryLocked(key)
}

func (m *Manager) entryLocked(key Key) *entry {
	for _, e := range m.pods[key.PodUID] {
		if e.key == key {
			return e
		}
	}
	return nil
}

// shape returns the current shape of e.
func (m *Manager) shape(e *entry) shape {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return e.shape
}

// stopPod stops the workers of one pod whose keys match.
func (m *Manager) stopPod(uid types.UID, match func(Key) bool) {
	m.end(m.take(uid, func(e *entry) bool { return match(e.key) }))
}

// end closes the observers of entries that were taken, and releases their handlers.
func (m *Manager) end(taken []*entry) {
	for _, e := range taken {
		e.closed()
		release(e.shape.bound.Handler)
		m.awaitEnd(e)
	}
}

// take removes the entries of one pod that match, and stops their workers. From now on other
// workers may be started for the same probes. The caller must call end with what it returns.
func (m *Manager) take(uid types.UID, match func(*entry) bool) (taken []*entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var kept []*entry
	for _, e := range m.pods[uid] {
		if match(e) {
			e.closed = e.worker.Halt()
			m.left[e] = struct{}{}
			taken = append(taken, e)
		} else {
			kept = append(kept, e)
		}
	}
	if len(taken) == 0 {
		return nil
	}
	m.pods[uid] = kept
	if len(kept) == 0 {
		delete(m.pods, uid)
	}
	m.ending.Add(len(taken))
	m.memory.probes.Add(-int64(len(taken)))
	return taken
}

// awaitEnd makes Shutdown wait for the tick of e that is under way, if there is one.
func (m *Manager) awaitEnd(e *entry) {
	ended := func() {
		e.worker.Wait()
		m.mu.Lock()
		delete(m.left, e)
		m.mu.Unlock()
		m.ending.Done()
	}
	if e.worker.Resting() {
		ended()
		return
	}
	go ended()
}

// ended is called by a worker that has ended without a Stop.
func (m *Manager) ended(uid types.UID, w *worker.Worker) {
	m.end(m.take(uid, func(e *entry) bool { return e.worker == w }))
}

func containerNames(pod *v1.Pod, sidecars bool) map[string]bool {
	names := make(map[string]bool)
	for i := range pod.Spec.Containers {
		names[pod.Spec.Containers[i].Name] = true
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; sidecars && IsSidecar(c) {
			names[c.Name] = true
		}
	}
	return names
}
