package endpoint

import (
	"context"
	"iter"
	"time"

	"github.com/daeace23/prober/core/states"
)

// Change is a change of the state of an endpoint, or of the reason of its state. From and To are equal if
// only the reason has changed.
type Change[K comparable] struct {
	Key      K
	From, To states.State
	Time     time.Time
	Reason   string
	Deciding []string // the names of the checks that decide To
	// Usable is [Status.Usable].
	Usable  bool
	Removed bool // the endpoint is no longer in the set
}

// pending is a change that a reader has not read.
type pending struct {
	from    states.State // that the reader knows
	removed bool
	at      int64 // time of the newest change, in nanoseconds of Unix time
}

// reader has the changes that a subscriber has not read: one for each endpoint. Its fields are guarded by the
// mu of the set.
type reader[K comparable] struct {
	pending map[K]pending
	order   []K
	wake    chan struct{} // has room for one
	closed  bool
}

// put adds a change. It never blocks: a change that was not read is merged with the next one of its endpoint.
func (r *reader[K]) put(key K, p pending) {
	if old, ok := r.pending[key]; ok {
		p.from = old.from
	} else {
		r.order = append(r.order, key)
	}
	r.pending[key] = p
	r.signal()
}

func (r *reader[K]) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// next takes the first change of a reader, if there is one.
func (s *Set[K]) next(r *reader[K]) (c Change[K], ok, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(r.order) == 0 {
		return c, false, r.closed
	}
	key := r.order[0]
	r.order = r.order[1:]
	p := r.pending[key]
	delete(r.pending, key)
	c = Change[K]{Key: key, From: p.from, Time: time.Unix(0, p.at), Removed: p.removed}
	if e := s.endpoints[key]; e != nil {
		c.To, c.Usable = e.state, e.usable
		c.Reason, c.Deciding = s.explainLocked(e)
	}
	return c, true, false
}

// Subscribe yields the state of each endpoint, and then all changes, until ctx ends or the set is shut down.
// A slow reader blocks nothing: it gets the newest change of an endpoint, whose From is the state that it
// knows.
func (s *Set[K]) Subscribe(ctx context.Context) iter.Seq[Change[K]] {
	return func(yield func(Change[K]) bool) {
		r := &reader[K]{pending: make(map[K]pending), wake: make(chan struct{}, 1)}
		if !s.addReader(r) {
			return
		}
		defer s.removeReader(r)
		for {
			c, ok, ended := s.next(r)
			switch {
			case ended:
				return
			case ok:
				if ctx.Err() != nil || !yield(c) {
					return
				}
				continue
			}
			select {
			case <-r.wake:
			case <-ctx.Done():
				return
			}
		}
	}
}
