package stream

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/probe"
)

// MaxReaders is how many streams may be open.
const MaxReaders = 64

// State has the present state that a [Hub] sends. All fields are required.
type State struct {
	// Select returns the probes that match, as [manager.Manager.Select].
	Select func(match func(*worker.Info) bool) []worker.Info
	// Probe returns the state of a probe, as [manager.Manager.Latest]. JSON must be able to represent
	// it.
	Probe func(manager.Key) (Probe, bool)
	// Watch returns all pods, and then their changes until ctx ends. The hub masks their secrets.
	Watch func(ctx context.Context) iter.Seq[pods.Change]
	// Events returns the newest events, the latest last.
	Events func() []v1.Event
}

// Hub gives the changes of probes, pods and events to its readers. It observes the probes; without
// readers a tick costs it one load. With readers a tick marks its probe, and [Hub.Run] encodes the
// newest state of what is marked, once for all readers.
type Hub struct {
	// Ended is called when a probe has ended. It must not block; nil does nothing. It is read-only from
	// the first probe on.
	Ended func(manager.Key)

	open   atomic.Int64          // watches that are not closed
	names  names                 // of their pods
	active atomic.Bool           // whether there is a session
	marked atomic.Pointer[watch] // the first of a list
	wake   chan struct{}         // holds a token while there may be work for Run
	inbox  inbox

	mu      sync.Mutex
	session *session // nil without readers
}

// New returns a hub without readers.
func New() *Hub { return &Hub{wake: make(chan struct{}, 1)} }

var (
	_ worker.Observer     = (*Hub)(nil)
	_ worker.GateObserver = (*watch)(nil)
)

// Observe implements [worker.Observer].
func (h *Hub) Observe(info worker.Info) worker.ProbeObserver {
	h.open.Add(1)
	if h.active.Load() {
		h.signal() // the session sees that a probe is missing
	}
	return &watch{hub: h, pod: h.names.add(types.UID(info.PodUID), info.Pod), container: info.Container, kind: info.Kind}
}

// Pods returns the UIDs of the pods called name that have probes, in no order. A pod is among them
// before the manager has its probes, and until all of them have ended.
func (h *Hub) Pods(name string) []types.UID { return h.names.uids(name) }

func keyOf(i *worker.Info) manager.Key {
	return manager.Key{PodUID: types.UID(i.PodUID), Container: i.Container, Kind: i.Kind}
}

// watch marks one probe as changed.
type watch struct {
	hub       *Hub
	pod       *pod // shared by its probes
	container string
	kind      probe.Kind
	marked    atomic.Bool // in the list of the hub
	next      *watch      // owned by the caller that has set marked, then by the session
}

func (w *watch) key() manager.Key {
	return manager.Key{PodUID: w.pod.uid, Container: w.container, Kind: w.kind}
}

func (w *watch) Tick(*worker.Tick)              { w.mark() }
func (w *watch) Skipped(worker.SkipReason, int) { w.mark() }
func (w *watch) Gated(worker.Gate)              { w.mark() }

func (w *watch) Close() {
	w.hub.open.Add(-1)
	w.hub.names.remove(w.pod)
	w.mark()
	if ended := w.hub.Ended; ended != nil {
		ended(w.key())
	}
}

// mark puts w into the list of the hub, unless it is there. No lock is taken: marks of other probes
// delay no tick.
func (w *watch) mark() {
	h := w.hub
	if !h.active.Load() || w.marked.Load() || !w.marked.CompareAndSwap(false, true) {
		return
	}
	for {
		first := h.marked.Load()
		w.next = first
		if h.marked.CompareAndSwap(first, w) {
			if first == nil {
				h.signal()
			}
			return
		}
	}
}

// takeMarked empties the list of marked probes. A mark is cleared before the state of its probe is
// read, so that a later change marks it again.
func (h *Hub) takeMarked(changed map[manager.Key]struct{}) {
	for w := h.marked.Swap(nil); w != nil; {
		next := w.next
		w.next = nil
		w.marked.Store(false)
		changed[w.key()] = struct{}{}
		w = next
	}
}

// Probe records that a probe has changed without a tick.
func (h *Hub) Probe(key manager.Key) {
	if h.active.Load() {
		h.inbox.addProbe(key)
		h.signal()
	}
}

// Event records that e is new, or has happened again.
func (h *Hub) Event(e v1.Event) {
	if h.active.Load() {
		h.inbox.addEvent(e)
		h.signal()
	}
}

func (h *Hub) signal() { wake(h.wake) }

// wake puts a token into ch if there is none.
func wake(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Run sends changes to the readers until ctx ends. It works only while there are readers.
func (h *Hub) Run(ctx context.Context, state State) {
	for ctx.Err() == nil {
		if s := h.current(); s != nil {
			s.run(ctx, state)
			continue
		}
		select {
		case <-h.wake:
		case <-ctx.Done():
		}
	}
}

func (h *Hub) current() *session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.session
}

// Attach returns a new reader, nil if there are too many. The caller must call its Close.
func (h *Hub) Attach() *Reader {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.session == nil {
		h.session = newSession(h)
		h.active.Store(true)
		h.signal()
	}
	if h.session.table.count() >= MaxReaders {
		return nil
	}
	r := &Reader{hub: h, session: h.session, wake: make(chan struct{}, 1)}
	h.session.table.attach(r)
	return r
}

// detach removes r. Without readers the state that was encoded for them is dropped.
func (h *Hub) detach(r *Reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r.session.table.detach(r)
	if h.session == r.session && h.session.table.count() == 0 {
		h.active.Store(false)
		close(h.session.ended)
		h.session = nil
	}
}
