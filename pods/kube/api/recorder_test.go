package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
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

// events is a fake API server for events. It sends each stored event to a channel.
type events struct {
	stored map[string]v1.Event
	told   chan v1.Event
	fails  atomic.Int32 // number of requests that fail first
	forbid atomic.Int32 // number of requests that are forbidden next
	ended  atomic.Int32 // requests for the namespace gone, which is being deleted

	broken func(w http.ResponseWriter) // answers requests for the namespace broken
	tries  atomic.Int32                // requests for the namespace broken
	asked  chan struct{}               // receives once for each request for the namespaces broken and gone
	mu     sync.Mutex                  // guards stored
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
		defer func() { e.asked <- struct{}{} }()
		terminating := apierrors.NewForbidden(v1.Resource("events"), "", errors.New("unable to create new content in namespace gone because it is being terminated"))
		terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: v1.NamespaceTerminatingCause, Field: "metadata.namespace"}}
		refuse(w, terminating)
		return
	}
	if strings.Contains(r.path, "/namespaces/broken/") {
		e.tries.Add(1)
		e.asked <- struct{}{}
		e.broken(w)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
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

// record returns a running recorder, and the server that it writes to.
func record(t *testing.T) (*api.Recorder, *events) {
	t.Helper()
	e := &events{stored: map[string]v1.Event{}, told: make(chan v1.Event, 2000), asked: make(chan struct{}, 2000)}
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

// TestPodProbeMarkerDefect4 shows that equal events are one object with a count, and that a flood is limited. The
// caller of the recorder is responsible for recording only transitions.
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
func TestRecorderDeletedNamespaceDelaysNoOther(t *testing.T) {
	r, e := record(t)
	gone := *container
	gone.Namespace = "gone"
	r.Event(&gone, v1.EventTypeWarning, "Unhealthy", "refused")
	r.Event(&gone, v1.EventTypeWarning, "Another", "refused")
	r.Event(container, v1.EventTypeWarning, "Unhealthy", "refused")
	<-e.told
	<-e.asked
	<-e.asked // the first one was dropped
	if counts := r.Counts(); e.ended.Load() != 2 || counts.Dropped < 1 {
		t.Errorf("%d requests, counts %+v", e.ended.Load(), counts)
	}
}

// TestRecorderRetry has more failures than the back-offs would allow within the test: Retry ends them.
func TestRecorderRetry(t *testing.T) {
	r, e := record(t)
	e.fails.Store(20)
	e.forbid.Store(4) // as a starting API server
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

// Failures of the events of one namespace do not delay the events of another one.
func TestRecorderNamespacesAreIndependent(t *testing.T) {
	end := make(chan struct{})
	for _, c := range []struct {
		name   string
		broken func(w http.ResponseWriter)
	}{
		{"hang", func(http.ResponseWriter) { <-end }},
		{"fail", func(w http.ResponseWriter) {
			refuse(w, apierrors.NewInternalError(errors.New("failed calling webhook")))
		}},
		{"are unavailable", func(w http.ResponseWriter) { refuse(w, apierrors.NewServiceUnavailable("the webhook says so")) }},
		{"exceed a quota", func(w http.ResponseWriter) {
			refuse(w, apierrors.NewForbidden(v1.Resource("events"), "", errors.New("exceeded quota")))
		}},
		{"are too many", func(w http.ResponseWriter) { refuse(w, apierrors.NewTooManyRequests("later", 1)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, e := record(t)
			e.broken = c.broken
			for i := range 1500 { // more than fit into the queue
				bad := *container
				bad.Namespace, bad.Name = "broken", fmt.Sprint("pod", i)
				r.Event(&bad, v1.EventTypeWarning, "Unhealthy", "refused")
			}
			<-e.asked
			for i := range 20 {
				good := *container
				good.Name = fmt.Sprint("pod", i)
				r.Event(&good, v1.EventTypeWarning, "Unhealthy", "refused")
			}
			for range 20 {
				<-e.told
			}
			if c.name == "hang" {
				close(end)
			}
		})
	}
}

// A refused event is not sent again. An event answered with other errors is dropped after 12 tries.
func TestRecorderGivesUp(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   *apierrors.StatusError
		tries int32
	}{
		{"forbidden", apierrors.NewForbidden(v1.Resource("events"), "", errors.New("exceeded quota")), 1},
		{"bad request", apierrors.NewBadRequest("no"), 1},
		{"error", apierrors.NewInternalError(errors.New("failed calling webhook")), 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, e := record(t)
			e.broken = func(w http.ResponseWriter) { refuse(w, c.err) }
			bad := *container
			bad.Namespace = "broken"
			r.Event(&bad, v1.EventTypeWarning, "Unhealthy", "refused")
			for r.Counts().Dropped == 0 {
				if e.tries.Load() > 0 && c.tries > 1 {
					r.Retry()
				}
				runtime.Gosched()
			}
			if got := e.tries.Load(); got != c.tries {
				t.Errorf("%d tries, want %d", got, c.tries)
			}
		})
	}
}
