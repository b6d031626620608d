package kube

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/internal/outbound"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/policy"
)

// policies follows the [policy.NodeProbes] of the node. The policies that are known stay while the API server cannot
// be reached, and while no controller runs. It is safe for concurrent use.
type policies struct {
	source   *Source
	informer cache.SharedIndexInformer // nil: pods have only their annotations
	known    chan struct{}             // closed when they are listed, or the API server has refused to list them
	listed   cache.DoneChecker

	mu   sync.RWMutex
	once bool // known is closed
	set  *policy.Set
	err  error // of the last request
}

func newPolicies(from cache.ListerWatcher, s *Source) *policies {
	p := &policies{source: s, known: make(chan struct{}), set: new(policy.Set)}
	if from == nil {
		p.once = true
		close(p.known)
		return p
	}
	p.informer = cache.NewSharedIndexInformer(api.Persistent(from, p.note), &policy.NodeProbes{}, 0, nil)
	// The calls fail only for a running informer.
	_ = p.informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}) // note has logged it
	handled, err := p.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { p.replace(o.(*policy.NodeProbes).Spec.Policies) },
		UpdateFunc: func(_, next any) { p.replace(next.(*policy.NodeProbes).Spec.Policies) },
		DeleteFunc: func(any) { p.replace(nil) },
	})
	if err == nil {
		p.listed = handled.HasSyncedChecker()
	}
	return p
}

// replace uses other policies, for the pods of the namespaces in which they differ.
func (p *policies) replace(next []policy.NodePolicy) {
	set := policy.NewSet(next)
	p.mu.Lock()
	differ := p.set.Namespaces(set)
	p.set = set
	p.mu.Unlock()
	p.source.watched.observeAgain(differ)
}

// note records the result of a request. A refusal of the API server ends the wait for the first list: the agent may
// have no right to read policies, or the cluster may not know them.
func (p *policies) note(ctx context.Context, err error) {
	if ctx.Err() != nil || apierrors.IsInvalid(err) {
		return // the agent ends, or the server has no initial list in a watch, and the informer lists
	}
	refused := err != nil && !api.Unanswered(err)
	err = outbound.Failure(ctx, err)
	p.mu.Lock()
	first := p.err == nil && err != nil
	p.err = err
	p.mu.Unlock()
	if first {
		p.source.log.Warn("policies cannot be watched; pods keep the probes of the policies that are known", "error", err.Error())
	}
	if refused {
		p.setKnown()
	}
}

func (p *policies) setKnown() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.once {
		p.once = true
		close(p.known)
	}
}

// trouble returns the error of the last request.
func (p *policies) trouble() error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.err
}

// run watches until ctx ends.
func (p *policies) run(ctx context.Context) {
	if p.informer == nil {
		return
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-ctx.Done():
		case <-p.known: // refused
		case <-p.listed.Done():
			p.setKnown()
		}
	})
	p.informer.RunWithContext(klog.NewContext(ctx, logr.Discard())) // note logs
	waiting.Wait()
}

// follows reports whether pods may have policies, and areKnown whether they are known.
func (p *policies) follows() bool { return p.informer != nil }

func (p *policies) areKnown() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.once
}

// of returns the policies of a pod, from the oldest to the newest.
func (p *policies) of(pod *v1.Pod) []policy.NodePolicy {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.set.Of(pod)
}

// declare reports whether a pod has a probe to follow: by its annotation, or by a policy.
func (p *policies) declare(pod *v1.Pod) bool {
	_, annotated := pod.Annotations[declared.Annotation]
	return annotated || len(p.of(pod)) > 0
}

// trim is the transform of the informer of pods. With policies, any pod may have probes: all are kept whole.
func (p *policies) trim(object any) (any, error) {
	if pod, ok := object.(*v1.Pod); ok && p.follows() {
		return trimmed(pod), nil
	}
	return trim(object)
}

// observeAgain observes the known pods of namespaces, and applies the ones that have probes.
func (w *watched) observeAgain(namespaces []string) {
	w.observing.Lock() // a pod that is deleted now is not observed afterwards
	defer w.observing.Unlock()
	all := make(map[string]bool, len(namespaces))
	for _, name := range namespaces {
		all[name] = true
	}
	for _, o := range w.informer.GetStore().List() {
		pod, ok := o.(*v1.Pod)
		if !ok || !all[pod.Namespace] {
			continue
		}
		w.source.observe(pod)
		w.source.applyAgain(pod.UID)
	}
}

// observeAll observes the pods without a probe that were seen before the policies were known.
func (w *watched) observeAll() {
	w.observing.Lock()
	defer w.observing.Unlock()
	for _, o := range w.informer.GetStore().List() {
		if pod, ok := o.(*v1.Pod); ok {
			w.source.observe(pod)
		}
	}
}

// applyAgain queues a pod that has probes.
func (s *Source) applyAgain(uid types.UID) {
	s.mu.Lock()
	p := s.pods[uid]
	s.mu.Unlock()
	if p != nil {
		s.toApply.Put(uid)
	}
}
