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
	// patience is how long an attempt waits for the plugins of a pod. Those that take longer are
	// prepared by other goroutines, and the pod is applied then: other pods do not wait.
	patience = 500 * time.Millisecond
	// preparers is how many pods such goroutines prepare at the same time, each for preparing at most, and
	// preparersOf how many of one namespace: others find a place.
	preparers   = 4
	preparersOf = 3
	preparing   = 30 * time.Second
	// A pod that was prepared, and whose configs take longer than patience again, is tried again after these times.
	minAgain, maxAgain = time.Second, time.Minute
)

// check prepares the plugins of a pod, with patience. slow means that they are not ready yet. A pod waits for the
// plugins of other pods once: those may have configs that always take long.
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
			continue // the end of another one wakes a loop
		}
		s.toPrepare.Signal() // there may be further ones
		s.prepare(ctx, uid)
		end()
		s.toPrepare.Signal()
	}
}

// beginToPrepare takes a pod that waits for its plugins: one of the namespace of which the last one was taken longest
// ago. end must be called when it is prepared. ok is false if there is none, or none of a namespace that has a place.
func (s *Source) beginToPrepare() (uid types.UID, end func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(s.preparations, func(_ string, of *preparation) bool { return of.active == 0 && now.Sub(of.last) > spentFor })
	of := &preparation{} // of a pod that is gone
	uid, ok = s.toPrepare.TakeFirst(func(uid types.UID) (last time.Time, ok bool) {
		p := s.pods[uid]
		if p == nil || s.preparations[p.latest.Namespace] == nil {
			return last, true
		}
		others := s.preparations[p.latest.Namespace]
		return others.last, others.active < preparersOf
	})
	if p := s.pods[uid]; ok && p != nil {
		if of = s.preparations[p.latest.Namespace]; of == nil {
			of = &preparation{}
			s.preparations[p.latest.Namespace] = of
		}
	}
	of.active++
	of.last = now
	return uid, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		of.active--
	}, ok
}

// preparation is what a namespace has of the loops that prepare pods. The mutex of the Source guards it.
type preparation struct {
	active int       // pods that are prepared
	last   time.Time // when the last one was taken
}

// prepare waits for the plugins of a pod, and then has it applied: later each time that it was not enough.
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
		next := newPlan(latest, &s.cfg, s.roomFor(latest))
		s.log.Info("waiting for the plugins of a pod", "namespace", next.pod.Namespace, "pod", next.pod.Name, "plugins", clip.Text(strings.Join(next.plugins, ", "), maxMessage))
		limited, cancel := context.WithTimeout(ctx, preparing)
		_ = s.host.Check(limited, next.declared) // the next attempt reports errors
		cancel()
	}
	s.mu.Lock()
	delete(s.preparing, uid)
	if p := s.pods[uid]; p != nil {
		p.again = time.Now().Add(wait)
	}
	s.mu.Unlock()
	time.AfterFunc(wait, func() { s.toApply.Put(uid) })
}
