package endpoint

import (
	"context"
	"iter"
	"sync"
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

// reader has the changes that a subscriber has not read: one for each endpoint.
type reader[K comparable] struct {
	mu      sync.Mutex
	pending map[K]*Change[K]
	order   []K
	wake    chan struct{} // has room for one
	closed  bool
}

// put adds a change. It never blocks: a change that was not read is merged with the next one of its endpoint.
func (r *reader[K]) put(c *Change[K]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.pending[c.Key]; p != nil {
		from := p.From
		*p = *c
		p.From = from
	} else {
		kept := *c
		r.pending[c.Key] = &kept
		r.order = append(r.order, c.Key)
	}
	r.signalLocked()
}

func (r *reader[K]) signalLocked() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *reader[K]) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.signalLocked()
}

func (r *reader[K]) next() (c *Change[K], ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.order) == 0 {
		return nil, r.closed
	}
	key := r.order[0]
	r.order = r.order[1:]
	c = r.pending[key]
	delete(r.pending, key)
	return c, false
}

// Subscribe yields the state of each endpoint, and then all changes, until ctx ends or the set is shut down.
// A slow reader blocks nothing: it gets the newest change of an endpoint, whose From is the state that it
// knows.
func (s *Set[K]) Subscribe(ctx context.Context) iter.Seq[Change[K]] {
	return func(yield func(Change[K]) bool) {
		r := &reader[K]{pending: make(map[K]*Change[K]), wake: make(chan struct{}, 1)}
		if !s.addReader(r) {
			return
		}
		defer s.removeReader(r)
		for {
			c, ended := r.next()
			switch {
			case ended:
				return
			case c != nil:
				if ctx.Err() != nil || !yield(*c) {
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
