//go:build linux

package faults

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/test/kube/bed"
)

// change is a new state of a condition of a pod.
type change struct {
	at  time.Time
	pod string
	uid types.UID
	corev1.PodCondition
	before corev1.ConditionStatus // "": there was none
}

func (c change) String() string {
	return fmt.Sprintf("%s %s %s: %q -> %s %s %q", c.at.UTC().Format("15:04:05.000"), c.pod, c.Type, c.before, c.Status, c.Reason, c.Message)
}

// event is a state of an event about a pod.
type event struct {
	at            time.Time
	name          string // the event's name
	pod           string
	reason, text  string
	count         int32
	first, newest time.Time
}

func (e event) String() string {
	return fmt.Sprintf("%s %s (%d): %s", e.pod, e.reason, e.count, e.text)
}

// recorder records all changes of Ready and of prober's conditions, and all events of prober, for the pods
// of a namespace.
type recorder struct {
	mu      sync.Mutex
	pods    map[string]*corev1.Pod
	changes []change
	events  []event
}

func record(t *testing.T, c *bed.Cluster, namespace string) *recorder {
	r := &recorder{pods: make(map[string]*corev1.Pod)}
	c.WatchStored(t, "/registry/pods/"+namespace+"/", func(key string, object runtime.Object) {
		pod, _ := object.(*corev1.Pod)
		r.stored(key[strings.LastIndex(key, "/")+1:], pod)
	})
	c.WatchStored(t, "/registry/events/"+namespace+"/", func(_ string, object runtime.Object) {
		if e, ok := object.(*corev1.Event); ok && e.Source.Component == "prober" {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, event{time.Now(), e.Name, e.InvolvedObject.Name, e.Reason, e.Message, e.Count, e.FirstTimestamp.Time, e.LastTimestamp.Time})
		}
	})
	return r
}

// stored records the changes of a new state of a pod; nil if it was deleted.
func (r *recorder) stored(name string, pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.pods[name]
	if pod == nil {
		delete(r.pods, name)
		return
	}
	r.pods[name] = pod
	if before == nil || before.UID != pod.UID {
		before = &corev1.Pod{}
	}
	for _, now := range pod.Status.Conditions {
		if now.Type != corev1.PodReady && !strings.HasPrefix(string(now.Type), "prober.dev/") {
			continue
		}
		old := conditionOf(before, now.Type)
		if old.Status != now.Status || old.Reason != now.Reason || old.Message != now.Message || !old.LastTransitionTime.Equal(&now.LastTransitionTime) {
			r.changes = append(r.changes, change{time.Now(), name, pod.UID, now, old.Status})
		}
	}
}

// conditionOf returns a condition of a pod; the zero value if there is none.
func conditionOf(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

// pod returns the stored state of a pod; the zero value if there is none.
func (r *recorder) pod(name string) *corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pod := r.pods[name]; pod != nil {
		return pod
	}
	return &corev1.Pod{}
}

// changesSince returns the changes of pods since mark. Without pods, it returns all changes.
func (r *recorder) changesSince(mark time.Time, pods ...string) (some []change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.changes {
		if c.at.After(mark) && (len(pods) == 0 || slices.Contains(pods, c.pod)) {
			some = append(some, c)
		}
	}
	return some
}

// statuses returns the statuses that a condition of a pod has changed to since mark, in order.
func (r *recorder) statuses(mark time.Time, pod string, kind corev1.PodConditionType) (all []corev1.ConditionStatus) {
	for _, c := range r.changesSince(mark, pod) {
		if c.Type == kind && c.Status != c.before {
			all = append(all, c.Status)
		}
	}
	return all
}

// changeTime returns when a condition of a pod first changed to a status after mark; zero if it did not.
func (r *recorder) changeTime(mark time.Time, pod string, kind corev1.PodConditionType, status corev1.ConditionStatus) time.Time {
	for _, c := range r.changesSince(mark, pod) {
		if c.Type == kind && c.Status == status && c.before != status {
			return c.at
		}
	}
	return time.Time{}
}

// eventsSince returns the newest state of each event about pods that was written since mark. Its count begins
// at mark. Without pods, it returns all events.
func (r *recorder) eventsSince(mark time.Time, pods ...string) (all []event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := make(map[string]int32)
	for _, e := range r.events {
		if !e.at.After(mark) {
			before[e.name] = e.count
			continue
		}
		if len(pods) > 0 && !slices.Contains(pods, e.pod) {
			continue
		}
		e.count -= before[e.name]
		if i := slices.IndexFunc(all, func(o event) bool { return o.name == e.name }); i >= 0 {
			all[i] = e
		} else {
			all = append(all, e)
		}
	}
	return all
}

// reasons returns the reasons of the events about a pod since mark. Each occurs as often as its event was
// counted.
func (r *recorder) reasons(mark time.Time, pod string) (all []string) {
	for _, e := range r.eventsSince(mark, pod) {
		for range e.count {
			all = append(all, e.reason)
		}
	}
	return all
}
