package stream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/events"
	"github.com/daeace23/prober/agent/stream"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/probe"
)

// world has the state that a hub streams. Each change of an object has a higher number than all earlier
// changes.
type world struct {
	hub    *stream.Hub
	events *events.Log

	slow time.Duration // duration of reading a probe's state; read-only after run

	mu      sync.Mutex
	last    int
	probes  map[manager.Key]*worldProbe
	pods    map[types.UID]int
	changed chan struct{} // of pods; closed and replaced at each change
}

type worldProbe struct {
	watch  worker.ProbeObserver
	number int
	listed bool // the manager has it
}

func newWorld() *world {
	w := &world{
		hub: stream.New(), probes: make(map[manager.Key]*worldProbe), pods: make(map[types.UID]int), changed: make(chan struct{}),
	}
	w.events = events.New(events.Config{Logger: slog.New(slog.DiscardHandler), Tell: w.hub.Event})
	return w
}

// run runs the hub until the test ends.
func (w *world) run(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.hub.Run(ctx, w.state()) })
	t.Cleanup(func() { cancel(); running.Wait() })
}

func (w *world) state() stream.State {
	return stream.State{Select: w.selected, Probe: w.probe, Watch: w.watch, Events: w.events.List}
}

func infoOf(key manager.Key) worker.Info {
	return worker.Info{
		Subject: results.Subject{Namespace: "ns", Pod: "pod-" + string(key.PodUID), PodUID: string(key.PodUID), Container: key.Container},
		Kind:    key.Kind, Handler: "exec",
	}
}

func (w *world) selected(match func(*worker.Info) bool) (all []worker.Info) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, p := range w.probes {
		if info := infoOf(key); p.listed && match(&info) {
			all = append(all, info)
		}
	}
	return all
}

func (w *world) probe(key manager.Key) (api.ProbeStatus, bool) {
	time.Sleep(w.slow)
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.probes[key]
	if p == nil || !p.listed {
		return api.ProbeStatus{}, false
	}
	i := infoOf(key)
	return api.ProbeStatus{
		Namespace: i.Namespace, Pod: i.Pod, UID: string(key.PodUID), Container: key.Container, Kind: key.Kind.String(), Handler: i.Handler, Result: "success", Run: p.number,
	}, true
}

func (w *world) watch(ctx context.Context) iter.Seq[pods.Change] {
	return func(yield func(pods.Change) bool) {
		shown := make(map[types.UID]int)
		for ctx.Err() == nil {
			w.mu.Lock()
			all, changed := maps.Clone(w.pods), w.changed
			w.mu.Unlock()
			for uid, number := range all {
				if shown[uid] != number && !yield(pods.Change{Pod: podOf(uid, number)}) {
					return
				}
			}
			for uid, number := range shown {
				if _, there := all[uid]; !there && !yield(pods.Change{Pod: podOf(uid, number), Removed: true}) {
					return
				}
			}
			shown = all
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}

func podOf(uid types.UID, number int) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + string(uid), UID: uid, Generation: int64(number)}}
}

func (w *world) numberLocked() int { w.last++; return w.last }

// add adds a probe. Like a manager, it creates the observer before it lists the probe.
func (w *world) add(key manager.Key) {
	p := &worldProbe{watch: w.hub.Observe(infoOf(key))}
	w.mu.Lock()
	p.number = w.numberLocked()
	w.probes[key] = p
	w.mu.Unlock()
	time.Sleep(time.Millisecond)
	w.mu.Lock()
	p.listed = true
	w.mu.Unlock()
}

func (w *world) remove(key manager.Key) {
	w.mu.Lock()
	p := w.probes[key]
	delete(w.probes, key)
	w.mu.Unlock()
	p.watch.Close()
}

// tick changes a probe like a tick, and act like a request.
func (w *world) tick(key manager.Key) { w.number(key).watch.Tick(nil) }
func (w *world) act(key manager.Key)  { w.number(key); w.hub.Probe(key) }

func (w *world) number(key manager.Key) *worldProbe {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.probes[key]
	p.number = w.numberLocked()
	return p
}

func (w *world) setPod(uid types.UID, there bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, uid)
	if there {
		w.pods[uid] = w.numberLocked()
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// happen adds an event with the reason, or increments its count.
func (w *world) happen(reason string) {
	w.events.Add(v1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "pod"}, v1.EventTypeWarning, reason, "text", 1, time.Now())
}

// numbers returns the numbers of probes and pods, and the counts of events.
func (w *world) numbers() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make(map[string]int)
	for key, p := range w.probes {
		all[fmt.Sprintf("probe %s/%s/%s", key.PodUID, key.Container, key.Kind)] = p.number
	}
	for uid, number := range w.pods {
		all[fmt.Sprintf("pod %s", uid)] = number
	}
	for _, e := range w.events.List() {
		all["event "+e.Name] = int(e.Count)
	}
	return all
}

// client is the response writer of a reader. It records the state that the reader received.
type client struct {
	t      *testing.T
	delay  time.Duration // of each write
	dead   bool          // accepts no bytes
	header http.Header

	mu       sync.Mutex
	deadline time.Time
	known    map[string]int
	received int // number of objects
	frames   []string
	writes   []time.Time
	keep     bool // keep the frames
}

func newClient(t *testing.T) *client {
	return &client{t: t, header: make(http.Header), known: make(map[string]int)}
}

func (c *client) Header() http.Header                 { return c.header }
func (c *client) WriteHeader(int)                     {}
func (c *client) Flush()                              {}
func (c *client) SetWriteDeadline(at time.Time) error { c.deadline = at; return nil }

func (c *client) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil // the header
	}
	delay := c.delay
	if c.dead {
		delay = 24 * time.Hour
	}
	if left := time.Until(c.deadline); delay > left {
		time.Sleep(left)
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(delay)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = append(c.writes, time.Now())
	for frame := range bytes.SplitSeq(bytes.TrimSuffix(p, []byte("\n\n")), []byte("\n\n")) {
		c.receive(frame)
	}
	return len(p), nil
}

// receive applies an event of the stream. Its version must not be older than the previous one.
func (c *client) receive(frame []byte) {
	head, data, ok := bytes.Cut(frame, []byte("\ndata: "))
	if !ok {
		if string(frame) != ": heartbeat" {
			c.t.Errorf("got %q", frame)
		}
		return
	}
	c.received++
	if c.keep {
		c.frames = append(c.frames, string(frame))
	}
	var o struct {
		UID, Container, Kind string
		Run, Count           int
		Removed              bool
		Metadata             struct {
			Name, UID  string
			Generation int
		}
	}
	if err := json.Unmarshal(data, &o); err != nil {
		c.t.Errorf("%v in %s", err, data)
	}
	name, number := "", o.Run+o.Metadata.Generation+o.Count
	switch string(head) {
	case "event: probe":
		name = fmt.Sprintf("probe %s/%s/%s", o.UID, o.Container, o.Kind)
	case "event: pod":
		name = "pod " + o.Metadata.UID
	case "event: event":
		name = "event " + o.Metadata.Name
	default:
		c.t.Errorf("an event %q", head)
	}
	if o.Removed {
		delete(c.known, name)
		return
	}
	if before := c.known[name]; number < before {
		c.t.Errorf("%s: number %d after %d", name, number, before)
	}
	c.known[name] = number
}

// read attaches c to the hub until leave is called or the hub ends the stream.
func (c *client) read(hub *stream.Hub) (leave func() error) {
	reader := hub.Attach(stream.Full)
	if reader == nil {
		c.t.Fatal("too many readers")
	}
	ctx, cancel := context.WithCancel(c.t.Context())
	ended := make(chan error, 1)
	go func() {
		defer reader.Close()
		ended <- reader.Serve(ctx, c)
	}()
	return sync.OnceValue(func() error { cancel(); return <-ended })
}

func (c *client) state() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.known)
}

func key(uid, container string) manager.Key {
	return manager.Key{PodUID: types.UID(uid), Container: container, Kind: probe.Readiness}
}
