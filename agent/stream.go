package agent

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent/events"
	"github.com/daeace23/prober/agent/secrets"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/pods"
)

const (
	maxStreams    = 64
	streamPause   = 100 * time.Millisecond // minimum between two batches of one stream
	maxPause      = time.Second            // maximum after a batch was written
	streamTimeout = 10 * time.Second       // for a reader to accept a batch
	heartbeat     = 15 * time.Second
)

// hub passes changes to the streams. Its callers never wait: a stream remembers what has changed,
// and reads the newest state when its reader has time.
type hub struct {
	count atomic.Int32 // of streams

	mu      sync.Mutex
	streams map[*stream]struct{}
}

func newHub() *hub { return &hub{streams: make(map[*stream]struct{})} }

var _ worker.Observer = (*hub)(nil)

// Observe implements [worker.Observer].
func (h *hub) Observe(info worker.Info) worker.ProbeObserver { return &probeWatch{h, info} }

// probeWatch passes the changes of one probe to the hub.
type probeWatch struct {
	hub  *hub
	info worker.Info
}

func (p *probeWatch) Tick(*worker.Tick) { p.changed() }
func (p *probeWatch) Skipped(reason worker.SkipReason, _ int) {
	if reason == worker.SkipQuarantine { // the API does not show the others
		p.changed()
	}
}
func (p *probeWatch) Close() { p.changed() }

func (p *probeWatch) changed() {
	p.hub.each(func(s *stream) { s.probes[infoKey(p.info)] = p.info })
}

func infoKey(i worker.Info) manager.Key {
	return manager.Key{PodUID: types.UID(i.PodUID), Container: i.Container, Kind: i.Kind}
}

// pod records that the probes of a pod may have changed.
func (h *hub) pod(uid types.UID) { h.each(func(s *stream) { s.touched[uid] = true }) }

func (h *hub) podChanged(c pods.Change) {
	h.each(func(s *stream) {
		s.pods[c.Pod.UID] = c
		s.touched[c.Pod.UID] = true
	})
}

func (h *hub) event(e v1.Event) {
	h.each(func(s *stream) {
		at := slices.IndexFunc(s.events, func(o v1.Event) bool { return o.Name == e.Name })
		if at >= 0 {
			s.events = slices.Delete(s.events, at, at+1)
		}
		s.events = append(s.events, e)
		if len(s.events) > events.Max {
			s.events = s.events[1:]
		}
	})
}

// each calls note for every stream, and wakes the streams.
func (h *hub) each(note func(*stream)) {
	if h.count.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.streams {
		note(s)
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// attach returns a new stream, nil if there are too many.
func (h *hub) attach() *stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.streams) >= maxStreams {
		return nil
	}
	s := &stream{wake: make(chan struct{}, 1), news: newNews()}
	h.streams[s] = struct{}{}
	h.count.Store(int32(len(h.streams)))
	return s
}

func (h *hub) detach(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, s)
	h.count.Store(int32(len(h.streams)))
}

// stream has the changes that one reader has not received yet.
type stream struct {
	wake chan struct{} // holds a token while there may be changes
	news               // guarded by the mu of the hub
}

// news has the objects that have changed. Its size is bounded by the number of objects, not by that
// of their changes.
type news struct {
	probes  map[manager.Key]worker.Info
	touched map[types.UID]bool // pods all of whose probes may have changed
	pods    map[types.UID]pods.Change
	events  []v1.Event
}

func newNews() news {
	return news{
		probes: make(map[manager.Key]worker.Info), touched: make(map[types.UID]bool), pods: make(map[types.UID]pods.Change),
	}
}

// take returns the changes since the last call.
func (h *hub) take(s *stream) news {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := s.news
	s.news = newNews()
	return n
}

// podItem and probeItem are the items of a stream. An object that was removed is sent once more,
// with Removed set.
type podItem struct {
	*v1.Pod
	Removed bool `json:"removed,omitempty"`
}

type probeItem struct {
	manager.ProbeStatus
	Removed bool `json:"removed,omitempty"`
}

// serveStream responds to GET /api/v1/stream with the present state, and then with changes.
func (a *Agent) serveStream(w http.ResponseWriter, r *http.Request) {
	s := a.hub.attach()
	if s == nil {
		fail(w, http.StatusServiceUnavailable, "too many streams are open")
		return
	}
	defer a.hub.detach(s)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := eventWriter{control: http.NewResponseController(w), w: w}
	if out.send(a.everything()) != nil {
		return
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	wake := s.wake // nil during a pause
	for {
		var err error
		select {
		case <-r.Context().Done():
			return
		case <-beat.C:
			err = out.send([]byte(": heartbeat\n\n"))
		case <-pause.C:
			wake = s.wake
		case <-wake:
			start := time.Now()
			batch := a.tell(a.hub.take(s))
			took := time.Since(start)
			err = out.send(batch)
			wake = nil
			pause.Reset(pauseAfter(took, int(a.hub.count.Load())))
		}
		if err != nil {
			return
		}
	}
}

// pauseAfter returns how long a stream pauses after a batch that took so long to make: so long that
// all streams together take a tenth of the time of one processor, but no longer than [maxPause].
func pauseAfter(took time.Duration, streams int) time.Duration {
	return min(max(streamPause, 10*time.Duration(streams)*took), maxPause)
}

// everything returns the state that a stream begins with.
func (a *Agent) everything() []byte {
	var b bytes.Buffer
	for _, pod := range a.source.Pods() {
		writeEvent(&b, "pod", podItem{Pod: secrets.Mask(&pod)})
	}
	for _, p := range a.probes() {
		p.History = nil
		writeEvent(&b, "probe", probeItem{ProbeStatus: p})
	}
	for _, e := range a.events.List() {
		writeEvent(&b, "event", e)
	}
	return b.Bytes()
}

// tell returns the newest state of all objects in n, without histories: the reader has seen the
// ticks.
func (a *Agent) tell(n news) []byte {
	var b bytes.Buffer
	for _, c := range n.pods {
		writeEvent(&b, "pod", podItem{secrets.Mask(c.Pod), c.Removed})
	}
	if len(n.probes)+len(n.touched) > 0 {
		for _, p := range a.probes() {
			key := p.Key()
			if _, named := n.probes[key]; named || n.touched[key.PodUID] {
				p.History = nil
				writeEvent(&b, "probe", probeItem{ProbeStatus: p})
			}
			delete(n.probes, key)
		}
	}
	for _, info := range n.probes { // those that were removed
		writeEvent(&b, "probe", probeItem{Removed: true, ProbeStatus: manager.ProbeStatus{
			Namespace: info.Namespace, Pod: info.Pod, UID: types.UID(info.PodUID), Container: info.Container,
			Kind: info.Kind, Handler: info.Handler,
		}})
	}
	for _, e := range n.events {
		writeEvent(&b, "event", e)
	}
	return b.Bytes()
}

func writeEvent(b *bytes.Buffer, name string, data any) {
	text, err := json.Marshal(data)
	if err != nil {
		return // a number that JSON cannot represent
	}
	b.WriteString("event: " + name + "\ndata: ")
	b.Write(text)
	b.WriteString("\n\n")
}

// eventWriter writes batches to one reader.
type eventWriter struct {
	control *http.ResponseController
	w       http.ResponseWriter
}

func (e *eventWriter) send(batch []byte) error {
	if err := e.control.SetWriteDeadline(time.Now().Add(streamTimeout)); err != nil {
		return err
	}
	if _, err := e.w.Write(batch); err != nil {
		return err
	}
	return e.control.Flush()
}
