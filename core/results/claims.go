package results

import (
	"context"
	"iter"
)

// Claim claims the container for by and returns nil. If another owner has claimed it, Claim changes nothing
// and returns that owner. Until Release, a claimed container keeps the subject of its owner, which must not
// be modified. Workers claim the containers that they probe.
func (h *claims) Claim(containerID string, by *owner) (other *owner) {
	s := h.cache.shard(containerID)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[containerID]
	switch {
	case e == nil:
		s.entries[containerID] = &cacheEntry{by: by, packed: claimed}
	case !e.has(claimed):
		s.entries[containerID] = &cacheEntry{by, e.cause, e.packed | claimed}
	case e.by != by:
		return e.by
	}
	return nil
}

// Claimant returns the owner that has claimed a container; nil if there is none.
func (h *claims) Claimant(containerID string) *owner {
	s := h.cache.shard(containerID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[containerID]; e.has(claimed) {
		return e.by
	}
	return nil
}

// Release ends the claim of by, and removes the result of the container as [Cache.Remove] does. It does
// nothing if another owner has claimed the container.
func (h *claims) Release(containerID string, by *owner) {
	s := h.cache.shard(containerID)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[containerID]
	if e == nil || e.has(claimed) && e.by != by {
		return
	}
	delete(s.entries, containerID)
	h.cache.removed(containerID, e)
}

// Set is [Cache.Set] for a worker. again sends an update even if r equals the stored result, for a new
// cause.
func (h *claims) Set(containerID string, r Result, by *owner, why Cause, again bool) {
	s := h.cache.shard(containerID)
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.entries[containerID]
	if was.has(present) && was.result() == r && !again {
		return
	}
	if was.has(claimed) {
		by = was.by
	}
	h.cache.setLocked(s, containerID, r, by, why)
}

// Subscribe is the function [Subscribe] with the parent of each container's owner, nil if none. It also
// ends after done is closed and all updates unread at that time are read. It may be called on the claims of
// any cache.
func (*claims) Subscribe(ctx context.Context, done <-chan struct{}, caches ...*Cache) iter.Seq2[*any, Update] {
	return subscribe(ctx, done, caches)
}

// Updates is [claims.Subscribe] without parents.
func (*claims) Updates(ctx context.Context, done <-chan struct{}, caches ...*Cache) iter.Seq[Update] {
	return updates(subscribe(ctx, done, caches))
}

func subscribe(ctx context.Context, done <-chan struct{}, caches []*Cache) iter.Seq2[*any, Update] {
	q := newQueue()
	for _, c := range caches {
		c.attach(q)
	}
	detach := func() {
		for _, c := range caches {
			c.detach(q)
		}
	}
	stop := context.AfterFunc(ctx, detach)
	return func(yield func(*any, Update) bool) {
		defer func() {
			stop()
			detach()
		}()
		for {
			u, parent, ok := q.next(ctx, done)
			if !ok || !yield(parent, u) {
				return
			}
		}
	}
}

// updates returns the updates of seq alone.
func updates(seq iter.Seq2[*any, Update]) iter.Seq[Update] {
	return func(yield func(Update) bool) {
		for _, u := range seq {
			if !yield(u) {
				return
			}
		}
	}
}
