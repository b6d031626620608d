package events

import (
	"fmt"
	"log/slog"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestEventsAreCountedAndBounded(t *testing.T) {
	l := New(Config{Logger: slog.New(slog.DiscardHandler), Tell: func(v1.Event) {}})
	about := &v1.ObjectReference{Kind: "Pod", Namespace: "n", Name: "p", UID: types.UID("u"), FieldPath: "spec.containers{c}"}
	for i := range Max + 10 {
		l.Event(about, v1.EventTypeWarning, "Unhealthy", fmt.Sprint(i))
		l.Event(about, v1.EventTypeNormal, "Started", "again")
	}
	events := l.List()
	if len(events) != Max {
		t.Fatalf("%d events are kept, want %d", len(events), Max)
	}
	if len(l.byKey) != Max {
		t.Errorf("%d events are held, want %d", len(l.byKey), Max)
	}
	last := events[Max-1]
	if last.Message != "again" || last.Count != Max+10 || last.Type != v1.EventTypeNormal || last.InvolvedObject != *about {
		t.Errorf("the last is %+v", last)
	}
	if first := events[0]; first.Message != "11" || first.Count != 1 {
		t.Errorf("the first is %q, %d times", first.Message, first.Count)
	}
	names := make(map[string]bool)
	for _, e := range events {
		names[e.Name] = true
	}
	if len(names) != Max {
		t.Errorf("%d names of %d events", len(names), Max)
	}
}
