package stream

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/probe"
)

// View selects the fields of the objects in a stream.
type View int

// All views.
const (
	Full    View = iota // all fields of the API except the history of probes
	Summary             // the fields of a table
	views
)

// State gives access to the present state that a [Hub] sends. All fields are required.
type State struct {
	// Select returns the probes for which match returns true, as [manager.Manager.Select].
	Select func(match func(*worker.Info) bool) []worker.Info
	// Probe returns the state of a probe, without its history.
	Probe func(manager.Key) (api.ProbeStatus, bool)
	// Watch yields all pods, and then their changes until ctx ends. The hub masks their secrets.
	Watch func(ctx context.Context) iter.Seq[pods.Change]
	// Events returns the newest events, the latest last.
	Events func() []v1.Event
}

// Hub sends the changes of probes, pods and events to its readers. It observes the probes. Without readers, a
// tick costs one load per view. With readers, a tick marks its probe, and [Hub.Run] encodes the newest state
// of marked probes, once for all readers of a view.
type Hub struct {
	// Ended is called when a probe has ended; it may be nil. It must not block. It is read-only once the
	// first probe is observed.
	Ended func(manager.Key)

	open  atomic.Int64 // number of watches that are not closed
	names names        // of pods with watches
	lanes [views]lane
}

// lane has the readers of one view.
type lane struct {
	hub    *Hub
	view   View
	active atomic.Bool           // reports whether there is a session
	marked atomic.Pointer[watch] // head of a linked list
	wake   chan struct{}         // holds a token while there may be work for run
	inbox  inbox

	mu      sync.Mutex
	session *session // nil without readers
}

// New returns a hub without readers.
func New() *Hub {
	h := new(Hub)
	for i := range h.lanes {
		l := &h.lanes[i]
		l.hub, l.view, l.wake = h, View(i), make(chan struct{}, 1)
	}
	return h
}

var (
	_ worker.Observer     = (*Hub)(nil)
	_ worker.GateObserver = (*watch)(nil)
)

// Observe implements [worker.Observer].
func (h *Hub) Observe(info worker.Info) worker.ProbeObserver {
	h.open.Add(1)
	for i := range h.lanes {
		if l := &h.lanes[i]; l.active.Load() {
			l.signal() // the session detects that a probe is missing
		}
	}
	return &watch{hub: h, pod: h.names.add(types.UID(info.PodUID), info.Pod), container: info.Container, kind: info.Kind}
}

// Pods returns the UIDs of the pods called name that have probes, unsorted. It includes a pod before the
// manager has its probes, and until all of them have ended.
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
	marks     [views]mark // for the lanes of the hub
}

// mark is the element of a watch in the list of a lane.
type mark struct {
	set  atomic.Bool // in the list
	next *watch      // owned by the caller that has set the mark, then by the session
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

func (w *watch) mark() {
	for i := range w.hub.lanes {
		w.hub.lanes[i].mark(w)
	}
}

// mark adds w to the list of the lane, unless it is in the list. It takes no lock, so that other probes delay
// no tick.
func (l *lane) mark(w *watch) {
	m := &w.marks[l.view]
	if !l.active.Load() || m.set.Load() || !m.set.CompareAndSwap(false, true) {
		return
	}
	for {
		first := l.marked.Load()
		m.next = first
		if l.marked.CompareAndSwap(first, w) {
			if first == nil {
				l.signal()
			}
			return
		}
	}
}

// takeMarked empties the list of marked probes. It clears a mark before the state of its probe is read, so
// that a later change marks the probe again.
func (l *lane) takeMarked(changed map[manager.Key]struct{}) {
	for w := l.marked.Swap(nil); w != nil; {
		m := &w.marks[l.view]
		next := m.next
		m.next = nil
		m.set.Store(false)
		changed[w.key()] = struct{}{}
		w = next
	}
}

// Probe records that a probe has changed without a tick.
func (h *Hub) Probe(key manager.Key) {
	for i := range h.lanes {
		if l := &h.lanes[i]; l.active.Load() {
			l.inbox.addProbe(key)
			l.signal()
		}
	}
}

// Event records that e is new or repeated.
func (h *Hub) Event(e v1.Event) {
	for i := range h.lanes {
		if l := &h.lanes[i]; l.active.Load() {
			l.inbox.addEvent(e)
			l.signal()
		}
	}
}

func (l *lane) signal() { wake(l.wake) }

// wake puts a token into ch if there is none.
func wake(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Run sends changes to the readers until ctx ends. It works only while there are readers.
func (h *Hub) Run(ctx context.Context, state State) {
	var running sync.WaitGroup
	for i := range h.lanes {
		running.Go(func() { h.lanes[i].run(ctx, state) })
	}
	running.Wait()
}

func (l *lane) run(ctx context.Context, state State) {
	for ctx.Err() == nil {
		if s := l.current(); s != nil {
			s.run(ctx, state)
			continue
		}
		select {
		case <-l.wake:
		case <-ctx.Done():
		}
	}
}

func (l *lane) current() *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// Attach returns a new reader of a view. The caller must call its Close.
func (h *Hub) Attach(view View) *Reader {
	l := &h.lanes[view]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session == nil {
		l.session = newSession(l)
		l.active.Store(true)
		l.signal()
	}
	r := &Reader{lane: l, session: l.session, wake: make(chan struct{}, 1)}
	l.session.table.attach(r)
	return r
}

// detach removes r. After the last reader it drops the encoded state.
func (l *lane) detach(r *Reader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.session.table.detach(r)
	if l.session == r.session && l.session.table.count() == 0 {
		l.active.Store(false)
		close(l.session.ended)
		l.session = nil
	}
}
