package kube

import (
	"context"
	"maps"
	"sync"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/daeace23/prober/internal/outbound"
	"github.com/daeace23/prober/pods/kube/api"
)

// namespaces has the labels of namespaces that the policy names. Pods have these labels in all places that select,
// group or show probes by label. A label of the namespace replaces one of the pod: who may create pods may not be
// the one who decides the team of a namespace. It is safe for concurrent use.
type namespaces struct {
	source   *Source
	informer cache.SharedIndexInformer // nil: no labels are named

	mu     sync.RWMutex
	labels map[string]map[string]string // by namespace, only those that are named
	err    error                        // of the last request
}

func newNamespaces(from cache.ListerWatcher, s *Source) *namespaces {
	n := &namespaces{source: s, labels: make(map[string]map[string]string)}
	if from == nil || len(s.cfg.Policy.NamespaceLabels) == 0 {
		return n
	}
	n.informer = cache.NewSharedIndexInformer(api.Persistent(from, n.note), &v1.Namespace{}, 0, nil)
	// The calls fail only for a running informer.
	_ = n.informer.SetTransform(n.trim)
	_ = n.informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}) // note has logged it
	_, _ = n.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { n.set(o.(*v1.Namespace)) },
		UpdateFunc: func(_, next any) { n.set(next.(*v1.Namespace)) },
		DeleteFunc: func(o any) { // its pods are gone
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			if gone, ok := o.(*v1.Namespace); ok {
				n.set(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gone.Name}})
			}
		},
	})
	return n
}

// trim is the transform of the informer. It keeps the labels that the policy names.
func (n *namespaces) trim(object any) (any, error) {
	namespace, ok := object.(*v1.Namespace)
	if !ok {
		return object, nil
	}
	kept := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace.Name, UID: namespace.UID, ResourceVersion: namespace.ResourceVersion}}
	for _, name := range n.source.cfg.Policy.NamespaceLabels {
		if value, ok := namespace.Labels[name]; ok {
			metav1.SetMetaDataLabel(&kept.ObjectMeta, name, value)
		}
	}
	return kept, nil
}

// set stores the labels of a namespace, and queues its pods if they have changed.
func (n *namespaces) set(namespace *v1.Namespace) {
	n.mu.Lock()
	changed := !maps.Equal(n.labels[namespace.Name], namespace.Labels)
	if n.labels[namespace.Name] = namespace.Labels; len(namespace.Labels) == 0 {
		delete(n.labels, namespace.Name)
	}
	n.mu.Unlock()
	if changed {
		n.source.applyNamespace(namespace.Name)
	}
}

// applyNamespace queues the pods of a namespace.
func (s *Source) applyNamespace(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, p := range s.pods {
		if p.latest.Namespace == name {
			s.toApply.Put(uid)
		}
	}
}

// note records the result of a request. The labels that are known stay after an error.
func (n *namespaces) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	why := outbound.Failure(ctx, err)
	n.mu.Lock()
	first := n.err == nil && why != nil
	n.err = why
	n.mu.Unlock()
	if first {
		n.source.log.Warn("namespaces cannot be watched; pods keep the labels of their namespaces that are known", "error", why.Error())
	}
}

// trouble returns the error of the last request.
func (n *namespaces) trouble() error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.err
}

// run watches until ctx ends.
func (n *namespaces) run(ctx context.Context) {
	if n.informer != nil {
		n.informer.RunWithContext(klog.NewContext(ctx, logr.Discard())) // note logs
	}
}

// labelsOf returns the labels of a pod with the ones of its namespace. The caller must not change them.
func (n *namespaces) labelsOf(pod *v1.Pod) map[string]string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	own := n.labels[pod.Namespace]
	if len(own) == 0 {
		return pod.Labels
	}
	all := make(map[string]string, len(pod.Labels)+len(own))
	maps.Copy(all, pod.Labels)
	maps.Copy(all, own)
	return all
}
