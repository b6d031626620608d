package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/pace"
)

const (
	maxQueued    = 1000    // events
	maxMessage   = 1 << 10 // bytes
	maxEventWait = 30 * time.Second
	maxForbidden = 5 // requests for one event: an API server that starts forbids what it allows later
)

// Recorder writes events of pods to the API server. Equal events are counted in one; floods are
// dropped: for each pod it writes 25 at once and one in five minutes then. It never blocks. It uses
// client-go's correlator, and a queue of its own: client-go's counts no drops, and gives an event up
// after two minutes without an API server.
type Recorder struct {
	client     *Client
	queue      chan *v1.Event
	again      chan struct{}           // holds a token: do not wait for the next try
	correlator *record.EventCorrelator // owned by Run
	counts     struct{ written, dropped, filtered atomic.Uint64 }
}

var _ manager.TargetRecorder = (*Recorder)(nil)

// NewRecorder returns a recorder. Nothing is written before Run.
func NewRecorder(c *Client) *Recorder {
	return &Recorder{client: c, queue: make(chan *v1.Event, maxQueued), again: make(chan struct{}, 1), correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{})}
}

// EventCounts are the counts of a [Recorder] since its start.
type EventCounts struct {
	Written  uint64 // requests
	Filtered uint64 // events of a flood
	Dropped  uint64 // events for which the queue had no place, or that the API server refused
}

// Counts returns the counts.
func (r *Recorder) Counts() EventCounts {
	return EventCounts{Written: r.counts.written.Load(), Filtered: r.counts.filtered.Load(), Dropped: r.counts.dropped.Load()}
}

// Event implements [manager.Recorder].
func (r *Recorder) Event(object runtime.Object, eventType, reason, message string) {
	r.TargetEvent(object, "", eventType, reason, message)
}

// TargetEvent implements [manager.TargetRecorder].
func (r *Recorder) TargetEvent(object runtime.Object, target, eventType, reason, message string) {
	about, err := reference.GetReference(scheme, object)
	if err != nil {
		r.counts.dropped.Add(1)
		return
	}
	now := metav1.Now()
	event := &v1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: about.Namespace, Name: util.GenerateEventName(about.Name, now.UnixNano())},
		InvolvedObject: *about, Reason: reason, Message: clip.Text(OneLine(message), maxMessage), Type: eventType,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source:              v1.EventSource{Component: fieldManager, Host: r.client.node},
		ReportingController: fieldManager, ReportingInstance: r.client.node,
	}
	if target != "" {
		event.Annotations = map[string]string{manager.TargetAnnotation: target}
	}
	select {
	case r.queue <- event:
	default:
		r.counts.dropped.Add(1)
	}
}

// Retry tries at once what has failed: the API server can be reached again.
func (r *Recorder) Retry() {
	select {
	case r.again <- struct{}{}:
	default:
	}
}

// Run writes events until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-r.queue:
			r.record(ctx, event)
		}
	}
}

// record writes one event, however long the API server is away.
func (r *Recorder) record(ctx context.Context, event *v1.Event) {
	result, err := r.correlator.EventCorrelate(event)
	if err != nil || result.Skip {
		r.counts.filtered.Add(1)
		return
	}
	forbidden := 0
	for wait := time.Second; ; wait = min(2*wait, maxEventWait) {
		err := r.write(ctx, result)
		if apierrors.IsForbidden(err) {
			forbidden++
		}
		if err == nil {
			r.counts.written.Add(1)
			return
		}
		refused := !apierrors.IsForbidden(err) || forbidden >= maxForbidden || apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause)
		if !retried(err) && refused {
			r.counts.dropped.Add(1)
			r.client.log.Debug("the API server refuses an event", "namespace", event.Namespace, "object", event.InvolvedObject.Name, "reason", event.Reason, "error", err)
			return
		}
		if pace.Wait(ctx, r.again, pace.Jitter(wait/2, wait)); ctx.Err() != nil {
			return
		}
	}
}

// retried reports whether a request that failed with err may succeed later.
func retried(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return true
	}
	code := status.ErrStatus.Code
	return code >= 500 || code == http.StatusTooManyRequests || code == http.StatusUnauthorized
}

// write creates an event, or raises the count of the one that there is.
func (r *Recorder) write(ctx context.Context, result *record.EventCorrelateResult) error {
	ctx, cancel := context.WithTimeoutCause(ctx, RequestTimeout, errTimeout)
	defer cancel()
	event := result.Event
	err := error(nil)
	var written v1.Event
	if event.Count > 1 {
		err = r.client.core.Patch(types.StrategicMergePatchType).Namespace(event.Namespace).Resource("events").Name(event.Name).
			Body(result.Patch).Do(ctx).Into(&written)
	}
	if event.Count <= 1 || apierrors.IsNotFound(err) { // it has expired
		event.ResourceVersion = ""
		var body []byte
		if body, err = json.Marshal(event); err != nil {
			return err
		}
		err = r.client.core.Post().Namespace(event.Namespace).Resource("events").Body(body).Do(ctx).Into(&written)
	}
	if err == nil {
		r.correlator.UpdateState(&written)
	}
	return err
}
