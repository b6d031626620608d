package conditions

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/pods/kube/api"
)

// Patcher patches pod conditions: an [api.Client].
type Patcher interface {
	PatchConditions(ctx context.Context, pod api.Pod, conditions []v1.PodCondition) error
}

var _ Patcher = (*api.Client)(nil)

// Recorder records events of pods.
type Recorder interface {
	Event(object runtime.Object, eventType, reason, message string)
}

// Config is what a [Writer] needs.
type Config struct {
	Patcher Patcher
	Logger  *slog.Logger
	Events  Recorder // gets an event for denied patches; nil: no events
	DryRun  bool     // log what would be written
	QPS     float64  // patches a second; 0: 20
	Burst   int      // patches at once; 0: as many as in a second
}

// Limits of a [Writer].
const (
	maxInFlight = 4                // patches of one namespace
	maxFailing  = 1                // patches of one namespace for pods whose last patch has failed
	drainTime   = 5 * time.Second  // for pending patches after the context of Run ends
	firstDenial = 5 * time.Second  // until denied changes are tried again unchanged: a starting API server may deny at first
	denialTime  = 10 * time.Minute // maximum of that time, which doubles with further denials
)

// Writer writes changed pod conditions. One patch has all changed conditions of the newest state of a pod. If only
// messages change, the patch comes at least 10 s after the last one, and with further such patches at most once a
// minute. Namespaces get patches in turn, and the patches in flight are limited for each namespace, so that slow
// patches of one namespace do not delay others. It is safe for concurrent use, and its methods do not block.
type Writer struct {
	cfg  Config
	wake chan struct{} // capacity 1: wakes Run

	mu        sync.Mutex
	pods      map[types.UID]*entry
	shares    map[string]*share // by namespace
	rate      pace.Rate
	patches   pace.Bucket
	succeeded time.Time // when a patch last succeeded
	ending    bool
	counts    Counts
}

// NewWriter returns a writer. Nothing is written before Run.
func NewWriter(cfg Config) *Writer {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.QPS <= 0 {
		cfg.QPS = 20
	}
	if cfg.DryRun {
		cfg.Patcher = dryRun{cfg.Logger}
	}
	burst := cmp.Or(cfg.Burst, int(math.Ceil(cfg.QPS)))
	return &Writer{
		cfg: cfg, wake: make(chan struct{}, 1), pods: make(map[types.UID]*entry), shares: make(map[string]*share),
		rate: pace.Rate{Burst: burst, Every: time.Duration(float64(time.Second) / cfg.QPS)},
	}
}

// Set sets the newest state of a pod. It replaces older states that are not written yet.
func (w *Writer) Set(pod Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.pods[pod.UID]
	if e == nil {
		e = newEntry(time.Now())
		w.pods[pod.UID] = e
	}
	if e.set(pod, time.Now()); w.ending {
		e.due = time.Now()
	}
	w.wakeUp()
}

// Remove forgets a pod.
func (w *Writer) Remove(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.pods[uid]
	if e == nil {
		return
	}
	if e.removed = true; !e.busy { // otherwise ended deletes it, so that patches of the pod stay in order
		delete(w.pods, uid)
		w.forgetShareLocked(e.pod.Namespace)
	}
	w.wakeUp()
}

// Retry retries failed patches at once. It is called when the API server can be reached again.
func (w *Writer) Retry() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.retryLocked(time.Time{})
}

// retryLocked retries at once the patches of pods that have been failing since a time or later.
func (w *Writer) retryLocked(since time.Time) {
	for _, e := range w.pods {
		if e.failures > 0 && e.pending && !e.failing.Before(since) {
			e.notBefore, e.due = time.Now(), time.Now()
		}
	}
	w.wakeUp()
}

// Run writes until ctx ends, and then pending patches for up to five more seconds.
func (w *Writer) Run(ctx context.Context) {
	patching, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var patches sync.WaitGroup
	defer patches.Wait()
	defer cancel(errors.New("the agent ends"))
	done := ctx.Done()
	var deadline <-chan time.Time
	for {
		wait := w.start(patching, &patches)
		if done == nil && w.settled() {
			return
		}
		select {
		case <-w.wake:
		case <-time.After(wait):
		case <-done:
			done, deadline = nil, time.After(drainTime)
			w.hurry()
		case <-deadline:
			return
		}
	}
}

// Counts are the counts of a [Writer] since its start.
type Counts struct {
	Written, Failed, Denied uint64 // patches
	Pending                 int    // pods whose conditions are not written yet
}

// Counts returns the counts.
func (w *Writer) Counts() Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.counts
	for _, e := range w.pods {
		if e.pending {
			c.Pending++
		}
	}
	return c
}

// wakeUp wakes Run.
func (w *Writer) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// start begins all patches that are due, and returns the time until the next one is due.
func (w *Writer) start(ctx context.Context, patches *sync.WaitGroup) (wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		now := time.Now()
		uid, e, wait := w.nextLocked(now)
		if e == nil {
			return wait
		}
		if e.gone {
			delete(w.pods, uid)
			w.forgetShareLocked(e.pod.Namespace)
			continue
		}
		changes := e.changes(now, w.cfg.DryRun, w.ending)
		if changes == nil {
			continue
		}
		if wait := w.patches.Next(w.rate).Sub(now); wait > 0 {
			return wait
		}
		w.patches = w.patches.Take(w.rate, now)
		e.busy = true
		end := w.shareLocked(e.pod.Namespace).begin(now, e.failures > 0)
		pod := e.pod.Pod
		patches.Go(func() {
			err := w.cfg.Patcher.PatchConditions(ctx, pod, changes)
			w.ended(uid, e, changes, err, end)
		})
	}
}

// nextLocked returns a due pod of the least recently served namespace. If none is due, next is nil, and wait is the
// time until one is. It scans all pods of the node: a few hundred.
func (w *Writer) nextLocked(now time.Time) (first types.UID, next *entry, wait time.Duration) {
	wait = time.Hour
	var nextShare *share
	for uid, e := range w.pods {
		if e.busy {
			continue
		}
		s := w.shareLocked(e.pod.Namespace)
		switch {
		case e.due.After(now):
			wait = min(wait, e.due.Sub(now))
		case !s.hasSlot(e.failures > 0): // the end of a patch wakes Run
		case next == nil || cmp.Or(s.served.Compare(nextShare.served), e.due.Compare(next.due)) < 0:
			first, next, nextShare = uid, e, s
		}
	}
	return first, next, wait
}

func (w *Writer) shareLocked(namespace string) *share {
	s := w.shares[namespace]
	if s == nil {
		s = &share{}
		w.shares[namespace] = s
	}
	return s
}

// ended handles the result of a patch. end frees its slot.
func (w *Writer) ended(uid types.UID, e *entry, changes []v1.PodCondition, err error, end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.wakeUp()
	end()
	e.busy = false
	s := w.shareLocked(e.pod.Namespace)
	log := w.cfg.Logger.With("namespace", e.pod.Namespace, "pod", e.pod.Name)
	switch now := time.Now(); {
	case err == nil:
		if !w.cfg.DryRun {
			w.counts.Written++
		}
		e.written(changes, now)
		if !w.troubledLocked(e.pod.Namespace) && s.logsRecovery() {
			log.Info("conditions of pods of a namespace are written again")
		}
		w.retryLocked(w.succeeded) // no patch has succeeded since they failed: the API server was unreachable
		w.succeeded = now
	case errors.Is(err, api.ErrGone):
		e.forget()
	case errors.Is(err, api.ErrDenied):
		w.counts.Denied++
		if s.logsFailure(now) {
			log.Warn("conditions of a pod cannot be written", "error", err)
		}
		if e.deny(changes, now) && w.cfg.Events != nil {
			w.cfg.Events.Event(reference(e.pod.Pod), v1.EventTypeWarning, "ProbeConditionDenied", "the API server refuses the conditions of the pod: "+err.Error())
		}
	default:
		w.counts.Failed++
		if s.logsFailure(now) {
			log.Warn("conditions of pods of a namespace cannot be written, and are retried", "error", err)
		}
		e.retry(changes, now)
	}
	if e.removed {
		delete(w.pods, uid)
	}
	w.forgetShareLocked(e.pod.Namespace)
}

// troubledLocked reports whether a patch of a namespace waits after a failure or a denial.
func (w *Writer) troubledLocked(namespace string) bool {
	for _, e := range w.pods {
		if e.pod.Namespace == namespace && e.pending && e.failures+e.denials > 0 {
			return true
		}
	}
	return false
}

// forgetShareLocked deletes the share of a namespace without pods.
func (w *Writer) forgetShareLocked(namespace string) {
	for _, e := range w.pods {
		if e.pod.Namespace == namespace {
			return
		}
	}
	if s := w.shares[namespace]; s != nil && s.active == 0 {
		delete(w.shares, namespace)
	}
}

// reference returns the object of events about a pod.
func reference(pod api.Pod) *v1.ObjectReference {
	return &v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// hurry makes all pending patches due, except for denied ones.
func (w *Writer) hurry() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ending = true
	for _, e := range w.pods {
		if e.pending && e.denied == nil {
			e.due = time.Now()
		}
	}
}

// settled reports whether no patches are pending or in flight, except for denied ones.
func (w *Writer) settled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.pods {
		if e.busy || e.pending && e.denied == nil {
			return false
		}
	}
	return true
}

// dryRun is a [Patcher] that logs.
type dryRun struct{ log *slog.Logger }

// PatchConditions implements [Patcher].
func (d dryRun) PatchConditions(_ context.Context, pod api.Pod, conditions []v1.PodCondition) error {
	for _, c := range conditions {
		d.log.Info("dry run: the condition of a pod would be written", "namespace", pod.Namespace, "pod", pod.Name, "type", c.Type, "status", c.Status, "reason", c.Reason, "message", c.Message)
	}
	return nil
}

// stamp sets the transition times of the conditions whose status changes.
func stamp(changes, before []v1.PodCondition, now time.Time) {
	for i := range changes {
		if old := find(before, changes[i].Type); old == nil || old.Status != changes[i].Status {
			changes[i].LastTransitionTime = metav1.NewTime(now)
		}
	}
}
