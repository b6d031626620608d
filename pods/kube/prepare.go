package kube

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/internal/pace"
)

const (
	// patience is how long an attempt waits for the plugins of a pod. If they take longer, other goroutines
	// prepare them, and the pod is applied afterwards. Other pods do not wait.
	patience = 500 * time.Millisecond
	// preparers is the number of these goroutines. preparersPerNamespace limits how many of them prepare pods
	// of the same namespace, so that others get a slot. prepareTimeout limits one preparation.
	preparers             = 4
	preparersPerNamespace = 3
	prepareTimeout        = 30 * time.Second
	// minAgain and maxAgain bound the back-off of a pod whose configs exceed patience again after a preparation.
	minAgain, maxAgain = time.Second, time.Minute
)

// check prepares the plugins of a pod, for at most patience. slow means that they are not ready yet. At its first
// try, a pod with a plugin that is being prepared for another pod counts as slow at once. It does so only once:
// configs of the other pod may always take long.
func (s *Source) check(ctx context.Context, p *pod, next *plan) (failed []error, slow bool) {
	if len(next.plugins) == 0 {
		return nil, false
	}
	s.mu.Lock()
	first := p.slow == 0
	s.mu.Unlock()
	if first && s.isPreparing(next) {
		return nil, true
	}
	brief, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := errors.Join(s.host.Check(brief, next.declared)...)
	return joined.Errors(err), err != nil && brief.Err() != nil
}

// isPreparing reports whether a plugin of the plan is being prepared for another pod.
func (s *Source) isPreparing(next *plan) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, names := range s.preparing {
		if slices.ContainsFunc(names, func(name string) bool { return slices.Contains(next.plugins, name) }) {
			return true
		}
	}
	return false
}

// prepareLoop waits for the plugins of pods that take long, until ctx ends.
func (s *Source) prepareLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.toPrepare.Wake:
		}
		uid, end, ok := s.beginToPrepare()
		if !ok {
			continue // the end of another preparation signals the queue
		}
		s.toPrepare.Signal() // more pods may be queued
		s.prepare(ctx, uid)
		end()
		s.toPrepare.Signal()
	}
}

// beginToPrepare takes the next pod that waits for its plugins, from the namespace that was served least recently.
// The caller must call end when the pod is prepared. ok is false if no pod waits, or if the namespaces of all waiting
// pods have no free slot.
func (s *Source) beginToPrepare() (uid types.UID, end func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(s.preparations, func(_ string, n *preparation) bool { return n.active == 0 && now.Sub(n.last) > spentFor })
	namespace := &preparation{} // discarded if the pod is gone
	uid, ok = s.toPrepare.TakeFirst(func(uid types.UID) (last time.Time, ok bool) {
		p := s.pods[uid]
		if p == nil || s.preparations[p.latest.Namespace] == nil {
			return last, true
		}
		others := s.preparations[p.latest.Namespace]
		return others.last, others.active < preparersPerNamespace
	})
	if p := s.pods[uid]; ok && p != nil {
		if namespace = s.preparations[p.latest.Namespace]; namespace == nil {
			namespace = &preparation{}
			s.preparations[p.latest.Namespace] = namespace
		}
	}
	namespace.active++
	namespace.last = now
	return uid, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		namespace.active--
	}, ok
}

// preparation counts the preparations of the pods of one namespace. The mutex of the Source guards it.
type preparation struct {
	active int       // in progress
	last   time.Time // start of the newest one
}

// prepare waits for the plugins of a pod, and then queues it to be applied, after a back-off if the plugins were slow
// again.
func (s *Source) prepare(ctx context.Context, uid types.UID) {
	var latest *v1.Pod
	var wait time.Duration
	s.mu.Lock()
	if p := s.pods[uid]; p != nil && !p.gone {
		latest = p.latest
		if p.slow > 1 {
			wait = pace.Doubled(minAgain, maxAgain, p.slow-2)
		}
	}
	s.mu.Unlock()
	if latest != nil {
		next := newPlan(latest, s.spaces.labelsOf(latest), s.chosen.of(latest), &s.cfg, s.roomFor(latest))
		s.log.Info("waiting for the plugins of a pod", "namespace", next.pod.Namespace, "pod", next.pod.Name, "plugins", clip.Text(strings.Join(next.plugins, ", "), maxMessage))
		limited, cancel := context.WithTimeout(ctx, prepareTimeout)
		_ = s.host.Check(limited, next.declared) // the next attempt reports errors
		cancel()
	}
	s.mu.Lock()
	delete(s.preparing, uid)
	if p := s.pods[uid]; p != nil {
		p.notBefore = time.Now().Add(wait)
	}
	s.mu.Unlock()
	time.AfterFunc(wait, func() { s.toApply.Put(uid) })
}
