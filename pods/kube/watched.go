package kube

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/daeace23/prober/internal/outbound"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/conditions"
)

// watched lists and watches the pods of the node. It records since when the API server cannot be reached.
type watched struct {
	source   *Source
	informer cache.SharedIndexInformer
	listed   cache.DoneChecker // done after all pods of the first list were observed

	observing sync.Mutex // held while an event is handled

	mu    sync.Mutex
	since time.Time // first failed request in a row; zero: the last request has succeeded
	err   error
}

func newWatched(from cache.ListerWatcher, s *Source) *watched {
	w := &watched{source: s}
	w.informer = cache.NewSharedIndexInformer(api.Persistent(from, w.note), &v1.Pod{}, 0, nil)
	// Both calls fail only for a running informer.
	_ = w.informer.SetTransform(s.chosen.trim)
	_ = w.informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}) // note has logged it
	handled, err := w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			w.observing.Lock()
			defer w.observing.Unlock()
			s.observe(o.(*v1.Pod))
		},
		UpdateFunc: func(old, next any) {
			w.observing.Lock()
			defer w.observing.Unlock()
			if old, next := old.(*v1.Pod), next.(*v1.Pod); old.UID != next.UID { // deleted and created again
				s.deleted(old.UID)
			}
			s.observe(next.(*v1.Pod))
		},
		DeleteFunc: func(o any) {
			w.observing.Lock()
			defer w.observing.Unlock()
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			if pod, ok := o.(*v1.Pod); ok {
				s.deleted(pod.UID)
			}
		},
	})
	if err == nil {
		w.listed = handled.HasSyncedChecker()
	}
	return w
}

// note records the result of a request. It logs when the API server becomes unreachable and reachable.
func (w *watched) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	err = outbound.Failure(ctx, err)
	w.mu.Lock()
	since := w.since
	w.err = err
	switch {
	case err == nil:
		w.since = time.Time{}
	case since.IsZero():
		w.since = time.Now()
	}
	w.mu.Unlock()
	switch {
	case err != nil && since.IsZero():
		w.source.log.Warn("pods cannot be listed or watched; known pods are still probed", "error", err.Error())
	case err == nil && !since.IsZero():
		w.source.log.Info("pods are watched again", "since", since.Format(time.RFC3339))
		w.source.cfg.Conditions.Retry()
		w.source.cfg.Events.Retry()
	}
}

// trouble returns the error of the last request, and since when requests fail; nil if the last one succeeded.
func (w *watched) trouble() (since time.Time, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since, w.err
}

// run watches until ctx ends.
func (w *watched) run(ctx context.Context) {
	var waiting sync.WaitGroup
	waiting.Go(func() { w.awaitList(ctx) })
	w.informer.RunWithContext(klog.NewContext(ctx, logr.Discard())) // note logs
	waiting.Wait()
}

// awaitList waits for the first list of the pods and of the policies, and then lets the loop apply them. It logs while
// it waits.
func (w *watched) awaitList(ctx context.Context) {
	reminder := time.NewTimer(2 * time.Second)
	defer reminder.Stop()
	await := func(listed <-chan struct{}, what string, trouble func() error) {
		for {
			select {
			case <-ctx.Done():
				return
			case <-listed:
				return
			case <-reminder.C:
				attrs := []any{"node", w.source.cfg.Node}
				if err := trouble(); err != nil {
					attrs = append(attrs, "error", err.Error())
				}
				w.source.log.Warn("waiting for the API server to list the "+what+" of this node", attrs...)
				reminder.Reset(time.Minute)
			}
		}
	}
	await(w.listed.Done(), "pods", func() error { _, err := w.trouble(); return err })
	await(w.source.chosen.known, "policies", w.source.chosen.trouble)
	if ctx.Err() != nil {
		return
	}
	if w.source.chosen.follows() {
		w.observeAll()
	}
	w.source.setSynced()
}

func (s *Source) setSynced() {
	s.mu.Lock()
	s.synced = true
	s.mu.Unlock()
	s.toApply.Put("") // wakes the loop, even if there is no pod
}

// observe records the newest object of a pod, and queues the pod.
func (s *Source) observe(next *v1.Pod) {
	ended := next.Status.Phase == v1.PodSucceeded || next.Status.Phase == v1.PodFailed
	if ended || !s.chosen.declare(next) {
		if !s.forget(next) && s.chosen.areKnown() {
			s.notProbed(next)
		}
		return
	}
	s.mu.Lock()
	p := s.pods[next.UID]
	if p == nil {
		p = newPod(nil)
		s.pods[next.UID] = p
	}
	before := p.latest
	p.latest, p.gone, p.left = next, false, nil
	s.mu.Unlock()
	if before == nil || mayChangeProbes(before, next) {
		s.toApply.Put(next.UID)
	}
	s.toPublish.Put(next.UID)
	s.toReport.Put(next.UID) // the published conditions may have changed
}

// forget queues the removal of a pod that exists and must not be probed. It returns false if the pod is not known.
func (s *Source) forget(left *v1.Pod) bool {
	s.mu.Lock()
	p := s.pods[left.UID]
	if p != nil {
		p.gone, p.left = true, left
	}
	s.mu.Unlock()
	if p != nil {
		s.toApply.Put(left.UID)
	}
	return p != nil
}

// deleted queues the removal of a pod that was deleted.
func (s *Source) deleted(uid types.UID) {
	s.mu.Lock()
	p := s.pods[uid]
	if p != nil {
		p.gone, p.left = true, nil
	}
	delete(s.unprobed, uid)
	s.mu.Unlock()
	if p != nil {
		s.toApply.Put(uid)
	} else {
		s.cfg.Conditions.Remove(uid)
	}
}

// notProbed reports that no probe decides prober's conditions of a pod.
func (s *Source) notProbed(pod *v1.Pod) {
	ended := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed || pod.DeletionTimestamp != nil
	if ended || !isGated(pod) && len(publishedConditions(pod)) == 0 {
		return
	}
	s.recordNotProbed(pod)
	s.cfg.Conditions.Set(conditions.Pod{
		Pod: api.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, Gated: isGated(pod), Generation: pod.Generation, Published: publishedConditions(pod),
	})
}

// recordNotProbed records an event, once, for a pod with the gate and no probe that decides it. If the published gate
// has the reason NotProbed, an earlier agent has recorded the event.
func (s *Source) recordNotProbed(pod *v1.Pod) {
	gate := conditionOf(pod, conditions.Ready)
	if !isGated(pod) || gate != nil && gate.Reason == conditions.NotProbed {
		return
	}
	s.mu.Lock()
	told := s.unprobed[pod.UID]
	s.unprobed[pod.UID] = true
	s.mu.Unlock()
	if !told {
		where := ""
		if s.chosen.follows() {
			where = ", nor by a ProbePolicy"
		}
		s.events.Event(reference(pod), v1.EventTypeWarning, conditions.NotProbed, "the pod has the readiness gate prober.dev/ready, and no probe in its annotation prober.dev/probes"+where+": it is not ready")
	}
}

// mayChangeProbes reports whether an update of a pod may change its probes.
func mayChangeProbes(before, next *v1.Pod) bool {
	return (before.DeletionTimestamp == nil) != (next.DeletionTimestamp == nil) ||
		!reflect.DeepEqual(before.Annotations, next.Annotations) || !reflect.DeepEqual(before.Labels, next.Labels) ||
		!reflect.DeepEqual(addressesOf(&before.Status), addressesOf(&next.Status)) || !reflect.DeepEqual(before.Spec, next.Spec)
}
