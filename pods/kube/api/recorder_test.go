package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/pods/kube/api"
)

var _ manager.Recorder = (*api.Recorder)(nil)

// events is an API server of events. It tells each that it has stored.
type events struct {
	stored map[string]v1.Event // owned by the requests, which come one after the other
	told   chan v1.Event
	fails  atomic.Int32 // requests
	forbid atomic.Int32 // requests, after those
	ended  atomic.Int32 // requests for the namespace gone, which is being deleted
}

func (e *events) handle(w http.ResponseWriter, r request) {
	if e.fails.Add(-1) >= 0 {
		refuse(w, apierrors.NewServiceUnavailable("no etcd"))
		return
	}
	if e.forbid.Add(-1) >= 0 {
		refuse(w, apierrors.NewForbidden(v1.Resource("events"), "", errors.New("not yet ready to handle request")))
		return
	}
	if strings.Contains(r.path, "/namespaces/gone/") {
		e.ended.Add(1)
		terminating := apierrors.NewForbidden(v1.Resource("events"), "", errors.New("unable to create new content in namespace gone because it is being terminated"))
		terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: v1.NamespaceTerminatingCause, Field: "metadata.namespace"}}
		refuse(w, terminating)
		return
	}
	var event v1.Event
	if r.method == "PATCH" {
		name := r.path[strings.LastIndex(r.path, "/")+1:]
		old, _ := json.Marshal(e.stored[name])
		changed, err := strategicpatch.StrategicMergePatch(old, []byte(r.body), v1.Event{})
		if err != nil {
			refuse(w, apierrors.NewBadRequest(err.Error()))
			return
		}
		r.body = string(changed)
	}
	if err := json.Unmarshal([]byte(r.body), &event); err != nil {
		refuse(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	e.stored[event.Name] = event
	reply(w, 200, event)
	e.told <- event
}

// record returns a recorder that runs, and the server that it writes to.
func record(t *testing.T) (*api.Recorder, *events) {
	t.Helper()
	e := &events{stored: map[string]v1.Event{}, told: make(chan v1.Event, 2000)}
	c, _ := connect(t, e.handle)
	r := api.NewRecorder(c)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return r, e
}

var container = &v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: "shop", Name: "web", UID: "web-uid", FieldPath: "spec.containers{app}"}

func TestRecorderEvent(t *testing.T) {
	r, e := record(t)
	r.Event(container, v1.EventTypeWarning, "Unhealthy", "Liveness probe failed: \xff"+strings.Repeat("é", 1000))
	got := <-e.told
	if got.InvolvedObject != *container || got.Type != "Warning" || got.Reason != "Unhealthy" || got.Source != (v1.EventSource{Component: "prober", Host: "one"}) || got.Namespace != "shop" || got.Count != 1 {
		t.Errorf("event %+v", got)
	}
	if len(got.Message) > 1024 || !strings.HasPrefix(got.Message, "Liveness probe failed: é") || !strings.HasSuffix(got.Message, "é…") {
		t.Errorf("message of %d bytes: %q", len(got.Message), got.Message)
	}
	r.TargetEvent(container, "GET http://10.0.0.7:8080/", v1.EventTypeNormal, "Healthy", "text")
	if got := <-e.told; got.Message != "text" || got.Annotations["prober.dev/target"] != "GET http://10.0.0.7:8080/" {
		t.Errorf("event %+v", got)
	}
	r.Event(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: strings.Repeat("n", 250), UID: "u"}}, v1.EventTypeNormal, "Any", "text")
	if got := <-e.told; got.InvolvedObject.Kind != "Pod" || got.InvolvedObject.UID != "u" || len(got.Name) > 253 {
		t.Errorf("event %+v", got)
	}
}

// TestPodProbeMarkerDefect4 shows that equal events are one that counts, and that a flood ends. That
// there is an event for transitions only is up to who calls the recorder.
func TestPodProbeMarkerDefect4(t *testing.T) {
	r, e := record(t)
	for range 100 {
		r.Event(container, v1.EventTypeWarning, "Unhealthy", "Readiness probe failed: refused")
	}
	for i := range 30 {
		r.Event(container, v1.EventTypeWarning, "Unhealthy", fmt.Sprint("Readiness probe failed: ", i))
	}
	other := *container
	other.Name, other.UID = "db", "db-uid"
	r.Event(&other, v1.EventTypeNormal, "Done", "the end")
	var last v1.Event
	n := 0
	for last = range e.told {
		if n++; last.Reason == "Done" {
			break
		}
	}
	if n != 26 || len(e.stored) != 2 {
		t.Errorf("%d requests, %d events", n, len(e.stored))
	}
	counts := r.Counts()
	if counts.Filtered != 105 || counts.Dropped != 0 {
		t.Errorf("counts %+v", counts)
	}
}

func TestRecorderRetriesAndNeverBlocks(t *testing.T) {
	r, e := record(t)
	e.fails.Store(1)
	for i := range 1500 {
		one := *container
		one.Name = fmt.Sprint("pod", i)
		r.Event(&one, v1.EventTypeWarning, "Unhealthy", "refused")
	}
	first := <-e.told
	if first.InvolvedObject.Name != "pod0" {
		t.Errorf("the event of %s is the first", first.InvolvedObject.Name)
	}
	if got := r.Counts().Dropped; got < 1 || got > 500 {
		t.Errorf("%d events were dropped", got)
	}
}

// The events of a namespace that is being deleted do not delay the others.
func TestRecorderNamespaceIsDeleted(t *testing.T) {
	r, e := record(t)
	gone := *container
	gone.Namespace = "gone"
	r.Event(&gone, v1.EventTypeWarning, "Unhealthy", "refused")
	r.Event(container, v1.EventTypeWarning, "Unhealthy", "refused")
	<-e.told
	if counts := r.Counts(); e.ended.Load() != 1 || counts.Dropped != 1 {
		t.Errorf("%d requests, counts %+v", e.ended.Load(), counts)
	}
}

// TestRecorderRetry has an API server that fails for longer than all waits together would take.
func TestRecorderRetry(t *testing.T) {
	r, e := record(t)
	e.fails.Store(20)
	e.forbid.Store(4) // it starts
	r.Event(container, v1.EventTypeWarning, "Unhealthy", "refused")
	for {
		select {
		case <-e.told:
			return
		default:
			r.Retry()
			runtime.Gosched()
		}
	}
}
