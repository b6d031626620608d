package manager

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/group"
)

// maxPendingEvents is the maximum number of events that wait for a slow recorder. Further events are
// dropped, so no probe waits for the recorder.
const maxPendingEvents = 4096

// TargetAnnotation is the annotation of an event with the target of its probe.
const TargetAnnotation = "prober.dev/target"

// TargetRecorder is a [Recorder] that gets the target of the probe with each event. TargetEvent replaces
// Event.
type TargetRecorder interface {
	Recorder
	// TargetEvent is called like Event. target is the result of [Manager.Target].
	TargetEvent(object runtime.Object, target, eventtype, reason, message string)
}

// events sends events to a recorder, in order, from a single goroutine. The goroutine only runs while there
// are events.
type events struct {
	recorder Recorder
	m        *Manager
	draining sync.WaitGroup

	mu      sync.Mutex
	pending []event
	busy    bool
}

type event struct {
	object          runtime.Object
	probe           Key
	reason, message string
}

func (e *events) send(ev event) {
	if e.recorder == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.pending) >= maxPendingEvents {
		return
	}
	e.pending = append(e.pending, ev)
	if !e.busy {
		e.busy = true
		e.draining.Go(e.drain)
	}
}

// drain sends the pending events. If the recorder ends the goroutine, another one continues.
func (e *events) drain() {
	drained := false
	defer func() {
		if !drained {
			e.draining.Go(e.drain)
		}
	}()
	for ev, ok := e.next(); ok; ev, ok = e.next() {
		_ = e.m.call("Recorder", func() error { e.record(ev); return nil })
	}
	drained = true
}

// next removes and returns the first pending event.
func (e *events) next() (ev event, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.busy = len(e.pending) > 0; !e.busy {
		e.pending = nil
		return event{}, false
	}
	ev, e.pending[0] = e.pending[0], event{}
	e.pending = e.pending[1:]
	return ev, true
}

func (e *events) record(ev event) {
	if r, ok := e.recorder.(TargetRecorder); ok {
		r.TargetEvent(ev.object, e.m.Target(ev.probe), v1.EventTypeWarning, ev.reason, ev.message)
	} else {
		e.recorder.Event(ev.object, v1.EventTypeWarning, ev.reason, ev.message)
	}
}

// drained waits until the recorder has recorded all events or ctx ends.
func (e *events) drained(ctx context.Context) error {
	if e.idle() {
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.draining.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// idle reports whether the recorder has recorded all events.
func (e *events) idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.busy
}

// event sends an event of a probe.
func (m *Manager) event(e group.Event) {
	info := e.Info
	ref := ContainerReference(info.Namespace, info.Pod, types.UID(info.PodUID), info.Container, e.Task.Sidecar)
	if t, ok := e.Task.Source.(*podTask); ok {
		ref.ResourceVersion = t.pod.resourceVersion
	}
	m.events.send(event{object: ref, probe: Key{types.UID(info.PodUID), info.Container, info.Kind}, reason: string(e.Reason), message: e.Message})
}

// ContainerReference returns the object reference of a container's events: the pod, with the field path of
// the container.
func ContainerReference(namespace, pod string, uid types.UID, container string, init bool) *v1.ObjectReference {
	list := "spec.containers"
	if init {
		list = "spec.initContainers"
	}
	return &v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: namespace, Name: pod, UID: uid,
		FieldPath: list + "{" + container + "}",
	}
}
