package controller

import (
	"context"
	"log/slog"
	"time"
	"unique"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/daeace23/prober/internal/outbound"
	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/policy"
)

// follower lists and watches a resource, and is the store of its reflector: it writes into the state. Unlike an
// informer it keeps no copy of the objects.
type follower struct {
	resource string
	from     cache.ListerWatcher
	example  runtime.Object
	state    *state
	log      *slog.Logger

	// With the lock of the state.
	set     func(object any)
	remove  func(types.NamespacedName)
	known   func(yield func(types.NamespacedName) bool) // names of all objects
	listed  bool
	failing bool // the last request has failed
}

// followers returns the followers of all resources.
func (c *Controller) followers() []*follower {
	s := c.state
	pods := &follower{
		resource: "pods", from: c.cfg.Cluster.AllPods(), example: &v1.Pod{},
		set: func(o any) { s.setPod(o.(*pod)) },
		remove: func(name types.NamespacedName) {
			s.removePod(podKey{unique.Make(name.Namespace), name.Name})
		},
		known: func(yield func(types.NamespacedName) bool) {
			for key := range s.pods {
				if !yield(types.NamespacedName{Namespace: key.namespace.Value(), Name: key.name}) {
					return
				}
			}
		},
	}
	policies := &follower{
		resource: policy.PoliciesResource, from: c.cfg.Cluster.Policies(), example: &policy.ProbePolicy{},
		set:    func(o any) { s.setPolicy(o.(*policy.ProbePolicy)) },
		remove: s.removePolicy,
		known: func(yield func(types.NamespacedName) bool) {
			for _, ns := range s.namespaces {
				for name := range ns.policies {
					if !yield(types.NamespacedName{Namespace: ns.name, Name: name}) {
						return
					}
				}
			}
		},
	}
	nodes := &follower{
		resource: policy.NodeProbesResource, from: c.cfg.Cluster.AllNodeProbes(), example: &policy.NodeProbes{},
		set:    func(o any) { s.setNodeProbes(o.(*policy.NodeProbes)) },
		remove: func(name types.NamespacedName) { s.removeNodeProbes(name.Name) },
		known: func(yield func(types.NamespacedName) bool) {
			for name, n := range s.nodes {
				if n.version != "" && !yield(types.NamespacedName{Name: name}) {
					return
				}
			}
		},
	}
	all := []*follower{pods, policies, nodes}
	for _, f := range all {
		f.state, f.log = s, c.log
	}
	return all
}

// Times between two lists, after the API server has refused one or ended a watch with an error.
const (
	minRelist = time.Second
	maxRelist = 30 * time.Second
)

// run follows the resource until ctx ends.
func (f *follower) run(ctx context.Context) {
	ctx = klog.NewContext(ctx, logr.Discard()) // note logs
	quiet := logr.Discard()
	reflector := cache.NewReflectorWithOptions(api.Persistent(f.from, f.note), f.example, f, cache.ReflectorOptions{Name: f.resource, Logger: &quiet})
	for wait := minRelist; ; wait = min(2*wait, maxRelist) {
		begun := time.Now()
		_ = reflector.ListAndWatchWithContext(ctx) // note knows the error
		if time.Since(begun) > maxRelist {
			wait = minRelist
		}
		if pace.Wait(ctx, nil, pace.Jitter(wait/2, wait)); ctx.Err() != nil {
			return
		}
	}
}

// note records whether the resource can be followed.
func (f *follower) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	f.state.mu.Lock()
	changed := f.failing != (err != nil)
	if f.failing = err != nil; changed && err != nil {
		f.state.failing++
	} else if changed {
		f.state.failing--
	}
	f.state.mu.Unlock()
	switch {
	case changed && err != nil:
		f.log.Warn("a resource cannot be listed or watched; nothing is written meanwhile", "resource", f.resource, "error", outbound.Failure(ctx, err).Error())
	case changed:
		f.log.Info("a resource is watched again", "resource", f.resource)
		f.state.changed()
	}
}

// Transformer implements [cache.TransformingStore]: a list that is streamed takes the memory of trimmed pods alone.
func (f *follower) Transformer() cache.TransformFunc { return trim }

// Add implements [cache.ReflectorStore].
func (f *follower) Add(object any) error {
	next, err := trim(object)
	if err != nil {
		return err
	}
	f.state.mu.Lock()
	f.set(next)
	f.state.mu.Unlock()
	f.state.changed()
	return nil
}

// Update implements [cache.ReflectorStore].
func (f *follower) Update(object any) error { return f.Add(object) }

// Delete implements [cache.ReflectorStore].
func (f *follower) Delete(object any) error {
	name, err := cache.ObjectToName(object)
	if err != nil {
		return err
	}
	f.state.mu.Lock()
	f.remove(name.AsNamespacedName())
	f.state.mu.Unlock()
	f.state.changed()
	return nil
}

// Replace implements [cache.ReflectorStore].
func (f *follower) Replace(objects []any, _ string) error {
	listed := make(map[types.NamespacedName]struct{}, len(objects))
	f.state.mu.Lock()
	for i, o := range objects {
		next, err := trim(o)
		if err != nil {
			f.state.mu.Unlock()
			return err
		}
		objects[i] = nil // the store owns the list
		f.set(next)
		listed[nameOf(next)] = struct{}{}
	}
	var gone []types.NamespacedName
	for name := range f.known {
		if _, exists := listed[name]; !exists {
			gone = append(gone, name)
		}
	}
	for _, name := range gone {
		f.remove(name)
	}
	if !f.listed {
		f.listed = true
		f.state.unlisted--
	}
	f.state.mu.Unlock()
	f.log.Info("listed", "resource", f.resource, "objects", len(objects))
	f.state.changed()
	return nil
}

// nameOf returns the name of a trimmed object.
func nameOf(object any) types.NamespacedName {
	switch o := object.(type) {
	case *pod:
		return types.NamespacedName{Namespace: o.namespace.Value(), Name: o.name}
	case *policy.ProbePolicy:
		return types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	case *policy.NodeProbes:
		return types.NamespacedName{Name: o.Name}
	}
	return types.NamespacedName{}
}

// Resync implements [cache.ReflectorStore].
func (f *follower) Resync() error { return nil }
