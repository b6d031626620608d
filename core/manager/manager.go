// Package manager is the kubelet's probe manager as a library.
//
// A [Manager] is given pods and keeps a worker for each of their probes; the three
// results caches say what was decided, and [Manager.UpdatePodStatus] writes it into
// a pod's status. The methods that the kubelet's manager has keep their names,
// parameters and meanings. What differs on purpose is listed in [Compat].
//
// This is the only room of the core that knows the Kubernetes API.
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

// Compat is the closed list of switches that turn a fix off.
type Compat = probe.Compat

// KubeletV1_36 turns every fix off.
const KubeletV1_36 = probe.CompatKubeletV1_36

// ErrClosed is returned by the methods of a closed manager.
var ErrClosed = errors.New("manager is closed")

// StatusSource knows the present status of pods. It is asked at every tick, by many
// goroutines, and must answer from memory. What it returns is not modified.
type StatusSource interface {
	PodStatus(uid types.UID) (v1.PodStatus, bool)
}

// RestartSource is a [StatusSource] that has containers which nobody restarts. The
// liveness and startup probes of such a container go on after a failure, which stays
// decided until SuccessThreshold successes. All others hold until a new container ID.
type RestartSource interface {
	StatusSource
	// Restarts reports whether somebody restarts the container when its liveness or
	// startup probe has failed. It depends on the pod's spec alone: it is asked when
	// probes are added, and when [Manager.UpdatePod] brings another spec.
	Restarts(pod *v1.Pod, container *v1.Container) bool
}

// Handlers finds handlers by name and binds them to a probe. The handlers.Registry
// is one. A handler that Prepare returned, and that is a [probe.Releaser], is released
// when its probe has ended.
type Handlers interface {
	Prepare(name string, config []byte, target probe.Target) (probe.Handler, error)
}

// Recorder takes events. client-go's record.EventRecorder is one. It is called from
// one goroutine, off the probes' path.
type Recorder interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// Config is what a manager needs. Only Status and Handlers are required.
type Config struct {
	Status   StatusSource // what is known of the pods' containers; may be a [RestartSource]
	Handlers Handlers     // by name: a handlers.Registry
	Recorder Recorder     // nil: no events

	// The results caches, shared with whoever else reads them; made when nil.
	Liveness, Readiness, Startup *results.Cache

	Observers []worker.Observer // hear of every tick of every probe
	Scheduler worker.Scheduler  // nil: [worker.RuntimeTimers]
	Logger    *slog.Logger      // nil: slog's default

	// RestartGrace is how long before the manager's start a container must have been
	// started to count as known to an earlier agent. 0 means the kubelet's 10 s.
	RestartGrace time.Duration
	// History is how many bytes of past ticks to keep for [Manager.Probes], in all.
	// 0 keeps the last tick of each probe only, with 256 bytes of its output.
	History int64
	// ResolveSecret returns the value of a reference like ${file:/run/secret} (source
	// "file") or ${env:NAME} (source "env") in a probe's config. It is asked when a probe
	// is added or changed, and by [Manager.RefreshSecrets]; never at a tick. Nil makes such
	// a reference an error. Who writes a pod chooses source and name, and where the value is
	// sent: a function that returns any file of the host gives all of them away. It returns
	// an error for what is not on a list of what pods may refer to.
	ResolveSecret func(source, name string) (string, error)

	// Compat has the kubelet's known bugs that are wanted back; 0 fixes them all.
	Compat Compat
}

// Key names one probe. It is the only identity of a worker.
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
	left    map[*entry]struct{} // taken, and not at their end yet
	ending  sync.WaitGroup      // one for each of left
}

// entry is a worker and what it was made from.
type entry struct {
	key    Key
	worker *worker.Worker
	record *record
	shape  shape  // guarded by the manager's mu, and read-only once the entry was taken
	tell   func() // tells the worker's observers of its end; set when the entry is taken
}

// shape is what a probe is at present.
type shape struct {
	config  ProbeConfig
	bound   *bound
	changes int // that the probe has seen so far
}

// bound is a handler that is bound to a probe.
type bound struct {
	probe.Handler
	mark string // tells what the references in its config stood for; "": there is none
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
			return nil, fmt.Errorf("manager: the %s cache of the config was made for %s probes", kind, got)
		}
		m.shared.Results[kind] = *cache
	}
	m.events = newEvents(cfg.Recorder)
	m.shared.Scheduler, m.shared.Observers = cfg.Scheduler, cfg.Observers
	m.shared.Event = m.event
	m.shared.AgentStart, m.shared.RestartGrace = m.start, m.cfg.RestartGrace
	m.shared.Compat, m.shared.Logger = cfg.Compat, cfg.Logger
	return m, nil
}

// AddPod starts a worker for every probe of pod that has none yet: of its containers,
// then of its restartable init containers; startup, readiness, liveness. It may be
// called again at every sync. It does not change a probe that is running; see
// [Manager.UpdatePod].
//
// pod is not modified and not kept. ctx bounds the call, not the probes. The error
// joins one for every probe that could not be started, named by the path of its
// field; the others are started. A probe that could not be started is undecided, as
// one that has not run yet: its container is not ready, or has not started, until a
// later call starts it.
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

// UpdatePod makes the workers of pod what its probes say now: it adds, changes and
// removes them. A probe whose handler and configuration are the same keeps what its
// thresholds have counted; a new period takes effect at once; the result of an
// attempt begun before is dropped. Ports, labels and restart policies are those of the
// new pod from now on. A probe with an error goes on as it was.
func (m *Manager) UpdatePod(ctx context.Context, pod *v1.Pod) error {
	d, set := declaredBy(pod), newPodSet(m, pod)
	unread, wanted := len(d.errs) > 0, make(map[Key]bool)
	for i, c := range d.configs {
		if ctx.Err() != nil {
			d.fail(context.Cause(ctx), d.configs[i:]...)
			break
		}
		key := c.key(pod.UID)
		wanted[key] = true
		if old := m.entry(key); old != nil && unread && !c.annotated && m.present(old).config.annotated {
			continue // the annotation may still ask for the probe that is running
		}
		if err := m.put(set, c); err != nil {
			d.fail(err, c)
		}
	}
	m.refuse(pod.UID, d.refused)
	if len(d.errs) > 0 { // what could not be read is not what was removed
		return errors.Join(d.errs...)
	}
	m.stopPod(pod.UID, func(k Key) bool { return !wanted[k] })
	return nil
}

// StopLivenessAndStartup ends the liveness and startup workers of a pod that is
// terminating; readiness is probed until the end.
func (m *Manager) StopLivenessAndStartup(pod *v1.Pod) {
	names := containerNames(pod, !m.cfg.Compat.Has(probe.CompatStopSkipsSidecars)) // kubernetes#141766
	m.stopPod(pod.UID, func(k Key) bool { return k.Kind != probe.Readiness && names[k.Container] })
}

// RemovePod ends the workers of the containers that pod names. When it returns they
// record nothing any more, and their decided results are gone.
func (m *Manager) RemovePod(pod *v1.Pod) {
	names := containerNames(pod, true)
	m.forgive(pod.UID, names)
	m.stopPod(pod.UID, func(k Key) bool { return names[k.Container] })
}

// CleanupPods ends the workers of all pods that are not in desired.
func (m *Manager) CleanupPods(desired map[types.UID]sets.Empty) {
	gone := func(uid types.UID) bool { _, ok := desired[uid]; return !ok }
	m.mu.Lock()
	maps.DeleteFunc(m.refused, func(uid types.UID, _ []probeName) bool { return gone(uid) })
	m.mu.Unlock()
	m.stopPods(gone)
}

// Subscribe returns the changes of all decided results from now until ctx ends,
// beginning with what they are now. A reader that is slow blocks no worker and finds
// the newest state of every container; see [results.Subscribe].
func (m *Manager) Subscribe(ctx context.Context) iter.Seq[results.Update] {
	return results.Subscribe(ctx, m.shared.Results[:]...)
}

// Results returns the cache of the decided results of one kind.
func (m *Manager) Results(kind probe.Kind) *results.Cache { return m.shared.Results[kind] }

// Trigger makes a probe tick now.
func (m *Manager) Trigger(key Key) error { return m.with(key, (*worker.Worker).Trigger) }

// Pause lets a probe rest. Its decided result stays as it is.
func (m *Manager) Pause(key Key) error { return m.with(key, (*worker.Worker).Pause) }

// Resume ends a pause.
func (m *Manager) Resume(key Key) error { return m.with(key, (*worker.Worker).Resume) }

func (m *Manager) with(key Key, do func(*worker.Worker)) error {
	e := m.entry(key)
	if e == nil {
		return fmt.Errorf("no %s probe of container %q in pod %s", key.Kind, key.Container, key.PodUID)
	}
	do(e.worker)
	return nil
}

// Close is [Manager.Shutdown] without a bound.
func (m *Manager) Close() error { return m.Shutdown(context.Background()) }

// Shutdown ends all workers and waits for the attempts under way, which are cancelled,
// and for the recorder to take the events that are left. When ctx ends first, because a
// handler, an observer or the recorder does not return, its error names the probes that
// were left behind; nothing that they answer counts any more.
func (m *Manager) Shutdown(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	uids := slices.Collect(maps.Keys(m.pods))
	m.mu.Unlock()
	var taken []*entry
	for _, uid := range uids { // all stop at once, whatever keeps one of them from ending
		taken = append(taken, m.take(uid, func(*entry) bool { return true })...)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.end(taken)
		m.ending.Wait()
		m.events.wait()
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

// leftBehind returns an error that says what Shutdown waits for, or nil where that is
// nothing.
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
	what := "events that the recorder does not take"
	if len(names) > 0 {
		slices.Sort(names)
		what = "probes under way: " + strings.Join(names[:min(len(names), shownLeft)], ", ")
		if more := len(names) - shownLeft; more > 0 {
			what += fmt.Sprintf(" and %d more", more)
		}
	}
	return fmt.Errorf("manager left behind %s: %w", what, context.Cause(ctx))
}

// shownLeft is how many of the probes left behind an error names.
const shownLeft = 10

// refuse notes which declared probes of a pod could not be started.
func (m *Manager) refuse(uid types.UID, names []probeName) {
	m.mu.RLock()
	nothing := len(names) == 0 && m.refused[uid] == nil // as at most syncs: no one has to wait
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

// stillRefused returns which probes of configs could not be started before.
func (m *Manager) stillRefused(uid types.UID, configs []ProbeConfig) (names []probeName) {
	for _, c := range configs {
		if _, refused := m.lookup(c.key(uid)); refused {
			names = append(names, probeName{c.Container, c.Kind})
		}
	}
	return names
}

// forgive forgets the probes of the containers called names that could not be started.
func (m *Manager) forgive(uid types.UID, names map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := slices.DeleteFunc(slices.Clone(m.refused[uid]), func(n probeName) bool { return names[n.container] })
	delete(m.refused, uid)
	if len(kept) > 0 {
		m.refused[uid] = kept
	}
}

// lookup returns the entry of a probe, or whether it is declared and could not be started.
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

// present returns what the probe of e is now.
func (m *Manager) present(e *entry) shape {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return e.shape
}

// stopPods ends all workers of the pods that match.
func (m *Manager) stopPods(match func(types.UID) bool) {
	var ended []types.UID
	m.mu.RLock()
	for uid := range m.pods {
		if match(uid) {
			ended = append(ended, uid)
		}
	}
	m.mu.RUnlock()
	for _, uid := range ended {
		m.stopPod(uid, func(Key) bool { return true })
	}
}

// stopPod ends the workers of one pod whose keys match.
func (m *Manager) stopPod(uid types.UID, match func(Key) bool) {
	m.end(m.take(uid, func(e *entry) bool { return match(e.key) }))
}

// end lets go of entries that were taken.
func (m *Manager) end(taken []*entry) {
	for _, e := range taken {
		e.tell()
		release(e.shape.bound.Handler)
		m.awaitEnd(e)
	}
}

// take removes the entries of one pod that match and stops their workers: from here on
// others may be started in their places, whose results nobody takes back. The caller owes
// them an end.
func (m *Manager) take(uid types.UID, match func(*entry) bool) (taken []*entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var kept []*entry
	for _, e := range m.pods[uid] {
		if match(e) {
			e.tell = e.worker.Halt()
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

// awaitEnd lets Shutdown wait for the tick of e that is under way, if one is.
func (m *Manager) awaitEnd(e *entry) {
	over := func() {
		e.worker.Wait()
		m.mu.Lock()
		delete(m.left, e)
		m.mu.Unlock()
		m.ending.Done()
	}
	if e.worker.Resting() {
		over()
		return
	}
	go over()
}

// ended is called by a worker that has ended by itself.
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
