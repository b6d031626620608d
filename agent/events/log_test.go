package events_test

import (
	"fmt"
	"log/slog"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent/events"
)

func TestEventsAreCountedAndBounded(t *testing.T) {
	l := events.New(events.Config{Logger: slog.New(slog.DiscardHandler), Tell: func(v1.Event) {}})
	about := &v1.ObjectReference{Kind: "Pod", Namespace: "n", Name: "p", UID: types.UID("u"), FieldPath: "spec.containers{c}"}
	for i := range events.Max + 10 {
		l.Event(about, v1.EventTypeWarning, "Unhealthy", fmt.Sprint(i))
		l.Event(about, v1.EventTypeNormal, "Started", "again")
	}
	list := l.List()
	if len(list) != events.Max {
		t.Fatalf("%d events are kept, want %d", len(list), events.Max)
	}
	last := list[events.Max-1]
	if last.Message != "again" || last.Count != events.Max+10 || last.Type != v1.EventTypeNormal || last.InvolvedObject != *about {
		t.Errorf("the last is %+v", last)
	}
	if first := list[0]; first.Message != "11" || first.Count != 1 {
		t.Errorf("the first is %q, %d times", first.Message, first.Count)
	}
	names := make(map[string]bool)
	for _, e := range list {
		names[e.Name] = true
	}
	if len(names) != events.Max {
		t.Errorf("%d names of %d events", len(names), events.Max)
	}
}

// A pod with ever-changing events, and a namespace with many such pods, do not displace events of others.
func TestEventsOfOthersAreKept(t *testing.T) {
	l := events.New(events.Config{Logger: slog.New(slog.DiscardHandler), Tell: func(v1.Event) {}})
	tell := func(namespace, pod, message string) {
		l.Event(&v1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod, UID: types.UID(namespace + pod)}, v1.EventTypeNormal, "Healthy", message)
	}
	for i := range 10 {
		tell("shop", "web", fmt.Sprint(i))
		tell("noisy", "quiet", fmt.Sprint(i))
	}
	for i := range 3 * events.Max {
		tell("noisy", fmt.Sprint("pod-", i%20), fmt.Sprint(i))
	}
	kept := make(map[string]int)
	for _, e := range l.List() {
		kept[e.InvolvedObject.Namespace+"/"+e.InvolvedObject.Name]++
	}
	if kept["shop/web"] != 10 || kept["noisy/quiet"] != 10 || kept["noisy/pod-0"] < 40 {
		t.Errorf("events are kept of %v", kept)
	}
}
