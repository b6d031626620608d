package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
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
	maxTries     = 12               // tries of an event that the API server answers with errors, as in client-go
	settleTime   = 30 * time.Second // after an outage, Forbidden is retried: a starting API server may deny at first
)

// Recorder writes events of pods to the API server. It uses client-go's correlator: equal events share one object
// with a count, and the rate for each pod is limited to a burst of 25 and then one in five minutes. Events beyond
// that are dropped. Each namespace has its own queue, so that a quota, a policy or a webhook delays only its
// namespace. While the API server does not answer at all, events wait; client-go drops them after two minutes. Its
// methods do not block, except for Run.
type Recorder struct {
	client     *Client
	wake       chan struct{}           // capacity 1: wakes Run
	correlator *record.EventCorrelator // safe for concurrent use
	counts     struct{ written, dropped, filtered atomic.Uint64 }

	mu      sync.Mutex
	queues  map[string]*eventQueue // by namespace
	queued  int                    // events in all of them
	again   chan struct{}          // closed by Retry, to end back-offs
	away    time.Time              // when the API server last did not answer, or became reachable
	written time.Time              // when an event was last written
}

// eventQueue has the events of a namespace that are not written yet, the oldest first. The recorder's lock guards it.
type eventQueue struct {
	events []*v1.Event
	busy   bool // a goroutine writes them
}

var _ manager.TargetRecorder = (*Recorder)(nil)

// NewRecorder returns a recorder. Nothing is written before Run.
func NewRecorder(c *Client) *Recorder {
	return &Recorder{
		client: c, wake: make(chan struct{}, 1), again: make(chan struct{}), queues: make(map[string]*eventQueue),
		correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{}),
	}
}

// EventCounts are the counts of a [Recorder] since its start.
type EventCounts struct {
	Written  uint64 // requests
	Filtered uint64 // events of a flood
	Dropped  uint64 // events that did not fit into the queue, or that the API server refused
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
	about, err := reference.GetReference(scheme(), object)
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
	r.put(event)
}

// put queues an event. If the queues are full, it drops the newest event of the namespace with the longest queue.
func (r *Recorder) put(event *v1.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.queues[event.Namespace]
	if q == nil {
		q = &eventQueue{}
		r.queues[event.Namespace] = q
	}
	if r.queued == maxQueued {
		r.counts.dropped.Add(1)
		longest := q
		for _, other := range r.queues {
			if len(other.events) > len(longest.events) {
				longest = other
			}
		}
		if longest == q {
			return
		}
		longest.events = longest.events[:len(longest.events)-1]
		r.queued--
	}
	q.events = append(q.events, event)
	r.queued++
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Retry retries failed writes at once. It is called when the API server can be reached again.
func (r *Recorder) Retry() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = time.Now()
	close(r.again)
	r.again = make(chan struct{})
}

// Run writes events until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	var queues sync.WaitGroup
	defer queues.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		r.mu.Lock()
		for namespace, q := range r.queues {
			if !q.busy {
				q.busy = true
				queues.Go(func() { r.writeAll(ctx, namespace, q) })
			}
		}
		r.mu.Unlock()
	}
}

// writeAll writes the events of a namespace, one after the other, until its queue is empty.
func (r *Recorder) writeAll(ctx context.Context, namespace string, q *eventQueue) {
	for {
		r.mu.Lock()
		if len(q.events) == 0 || ctx.Err() != nil {
			delete(r.queues, namespace)
			r.mu.Unlock()
			return
		}
		event := q.events[0]
		q.events = q.events[1:]
		r.queued--
		r.mu.Unlock()
		r.record(ctx, event)
	}
}

// record writes one event. It retries as long as the API server is unreachable, but gives up after maxTries answers
// with errors.
func (r *Recorder) record(ctx context.Context, event *v1.Event) {
	result, err := r.correlator.EventCorrelate(event)
	if err != nil || result.Skip {
		r.counts.filtered.Add(1)
		return
	}
	tries, first := 0, time.Now()
	for wait := time.Second; ; wait = min(2*wait, maxEventWait) {
		r.mu.Lock()
		again := r.again
		r.mu.Unlock()
		err := r.write(ctx, result)
		if err == nil {
			r.counts.written.Add(1)
			r.mu.Lock()
			r.written = time.Now()
			r.mu.Unlock()
			return
		}
		if !r.isAway(err, first) {
			tries++
		}
		if tries >= maxTries || !r.isRetryable(err) {
			r.counts.dropped.Add(1)
			r.client.log.Debug("the API server refuses an event", "namespace", event.Namespace, "object", event.InvolvedObject.Name, "reason", event.Reason, "error", err)
			return
		}
		if pace.Wait(ctx, again, pace.Jitter(wait/2, wait)); ctx.Err() != nil {
			return
		}
	}
}

// isAway reports whether the API server is unreachable or not ready for all namespaces: err says so, and no event
// was written since a time. It records the time of the outage.
func (r *Recorder) isAway(err error, since time.Time) bool {
	_, answered := errors.AsType[*apierrors.StatusError](err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if answered && !apierrors.IsServiceUnavailable(err) || !r.written.Before(since) {
		return false
	}
	r.away = time.Now()
	return true
}

// isRetryable reports whether a request that failed with err may succeed later.
func (r *Recorder) isRetryable(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return true
	}
	if apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return time.Since(r.away) < settleTime
	}
	code := status.ErrStatus.Code
	return code >= 500 || code == http.StatusTooManyRequests || code == http.StatusUnauthorized
}

// write creates an event, or increments the count of an existing one.
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
