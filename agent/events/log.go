package events

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
)

// Max is the limit of different events that are kept, and of warnings that are folded.
const Max = 1000

// Log keeps the newest events of all pods. It counts equal events instead of keeping each, like client-go.
// Warnings that only differ in durations and source addresses are equal; the newest message is kept.
type Log struct {
	log      *slog.Logger
	tell     func(v1.Event)
	hostname string

	foldFirst time.Duration

	mu     sync.Mutex
	folds  map[eventKey]*fold
	byKey  map[eventKey]*v1.Event
	order  []eventKey // sorted by last time, oldest first
	number int64
}

// eventKey identifies equal events.
type eventKey struct {
	uid                        types.UID
	namespace, pod, path       string
	eventType, reason, message string
}

var _ manager.TargetRecorder = (*Log)(nil)

// Config configures a [Log].
type Config struct {
	Logger *slog.Logger
	// Tell is called with every event, in order. It must not block.
	Tell func(v1.Event)
	// FoldFirst is the first interval in which equal warnings are folded into one line; 0 means a minute. It
	// doubles up to 16 minutes.
	FoldFirst time.Duration
}

// New returns a log without events.
func New(cfg Config) *Log {
	hostname, _ := os.Hostname() // "" is acceptable
	return &Log{
		log: cfg.Logger, tell: cfg.Tell, hostname: hostname, foldFirst: cmp.Or(cfg.FoldFirst, foldFirst),
		folds: make(map[eventKey]*fold), byKey: make(map[eventKey]*v1.Event),
	}
}

// Event implements [manager.Recorder].
func (l *Log) Event(object runtime.Object, eventType, reason, message string) {
	l.TargetEvent(object, "", eventType, reason, message)
}

// TargetEvent implements [manager.TargetRecorder].
func (l *Log) TargetEvent(object runtime.Object, target, eventType, reason, message string) {
	ref := reference(object)
	now := time.Now()
	l.add(ref, target, eventType, reason, message, 1, now) // before the line that reports it
	attrs := []any{"reason", reason, "namespace", ref.Namespace, "pod", ref.Name, "object", ref.FieldPath, "message", message}
	if target != "" {
		attrs = append(attrs, "target", target)
	}
	if eventType != v1.EventTypeWarning {
		l.log.Info("event", attrs...)
		return
	}
	l.mu.Lock()
	log := l.takeLocked(keyOf(&ref, eventType, reason, normalize(message)), attrs, now)
	l.mu.Unlock()
	if log {
		l.log.Warn("event", attrs...)
	}
}

func keyOf(ref *v1.ObjectReference, eventType, reason, message string) eventKey {
	return eventKey{ref.UID, ref.Namespace, ref.Name, ref.FieldPath, eventType, reason, message}
}

// Host adds a warning about the agent's host, which happened n times. Its object is a Node, as in the
// kubelet's events about itself.
func (l *Log) Host(reason, message string, n int) {
	l.Add(l.Node(), v1.EventTypeWarning, reason, message, n, time.Now())
}

// Node returns a reference to the agent's host.
func (l *Log) Node() v1.ObjectReference {
	name := cmp.Or(l.hostname, "localhost")
	return v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: name, UID: types.UID(name)}
}

// Add counts an event that happened n times.
func (l *Log) Add(ref v1.ObjectReference, eventType, reason, message string, n int, now time.Time) {
	l.add(ref, "", eventType, reason, message, n, now)
}

// add is Add with the target of a probe.
func (l *Log) add(ref v1.ObjectReference, target, eventType, reason, message string, n int, now time.Time) {
	key := keyOf(&ref, eventType, reason, message)
	if eventType == v1.EventTypeWarning {
		key.message = normalize(message)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.byKey[key]
	if e == nil {
		l.number++
		name := fmt.Sprintf("%s.%x.%x", cmp.Or(ref.Name, "unknown"), now.UnixNano(), l.number)
		e = &v1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: name, Namespace: ref.Namespace, CreationTimestamp: metav1.NewTime(now)},
			InvolvedObject: ref, Reason: reason, Message: message, Type: eventType,
			Source: v1.EventSource{Component: "prober", Host: l.hostname}, FirstTimestamp: metav1.NewTime(now),
		}
		l.byKey[key] = e
	} else {
		l.order = slices.DeleteFunc(l.order, func(k eventKey) bool { return k == key })
	}
	if target != "" && e.Annotations[manager.TargetAnnotation] != target { // copied events share the map
		e.Annotations = map[string]string{manager.TargetAnnotation: target}
	}
	l.order = append(l.order, key)
	e.Message = message
	e.Count += int32(n)
	e.LastTimestamp = metav1.NewTime(now)
	if len(l.order) > Max {
		l.dropLocked()
	}
	l.tell(*e)
}

// dropLocked drops the oldest event of the pod with the most events, in the namespace with the most events.
// So a pod with ever-changing events loses its own events, and no others.
func (l *Log) dropLocked() {
	type pod struct {
		namespace, name string
		uid             types.UID
	}
	namespaces, pods := make(map[string]int), make(map[pod]int)
	podOf := func(k eventKey) pod { return pod{k.namespace, k.pod, k.uid} }
	for _, k := range l.order {
		namespaces[k.namespace]++
		pods[podOf(k)]++
	}
	drop := 0
	for i, k := range l.order {
		other := l.order[drop]
		if cmp.Or(cmp.Compare(namespaces[k.namespace], namespaces[other.namespace]), cmp.Compare(pods[podOf(k)], pods[podOf(other)])) > 0 {
			drop = i
		}
	}
	delete(l.byKey, l.order[drop])
	l.order = slices.Delete(l.order, drop, drop+1)
}

// List returns the events, newest last.
func (l *Log) List() []v1.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	events := make([]v1.Event, 0, len(l.order))
	for _, key := range l.order {
		events = append(events, *l.byKey[key])
	}
	return events
}

// reference returns the object of an event.
func reference(object runtime.Object) v1.ObjectReference {
	switch o := object.(type) {
	case *v1.ObjectReference:
		return *o
	case *v1.Pod:
		return v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: o.Namespace, Name: o.Name, UID: o.UID}
	default:
		return v1.ObjectReference{}
	}
}
