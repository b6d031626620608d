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

// Warnings that only differ in durations and source ports are one event with the newest message.
func TestEventsFoldDurationsAndPorts(t *testing.T) {
	var told []v1.Event
	l := events.New(events.Config{Logger: slog.New(slog.DiscardHandler), Tell: func(e v1.Event) { told = append(told, e) }})
	for i := range 76 {
		unhealthy(l, "1", fmt.Sprintf("Readiness probe failed: read tcp 10.0.0.1:%d->10.0.0.2:80: reset after 1.%ds", 40000+i, i))
	}
	unhealthy(l, "1", "Readiness probe failed: read tcp 10.0.0.1:40000->10.0.0.2:81: reset after 1s")
	about := &v1.ObjectReference{Kind: "Pod", Namespace: "n", Name: "p", UID: "2"}
	l.Event(about, v1.EventTypeNormal, "Pulled", "pulled in 1s")
	l.Event(about, v1.EventTypeNormal, "Pulled", "pulled in 2s")
	list := l.List()
	if len(list) != 4 {
		t.Fatalf("%d events, want 4: %+v", len(list), list)
	}
	if e := list[0]; e.Count != 76 || e.Message != "Readiness probe failed: read tcp 10.0.0.1:40075->10.0.0.2:80: reset after 1.75s" {
		t.Errorf("%q, %d times", e.Message, e.Count)
	}
	if first, last := told[0], told[75]; first.Name != last.Name || last.Count != 76 || first.Message == last.Message {
		t.Errorf("told of %q %q and then of %q %q", first.Name, first.Message, last.Name, last.Message)
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
