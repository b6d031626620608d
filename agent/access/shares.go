package access

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// sharePatience is how long a request waits for a slot before it may cut a request of a peer with more slots.
const sharePatience = time.Second

var errCut = errors.New("another client needs the slot of this request")

// Shares limits concurrent requests, and shares the slots fairly between peers. A peer is an IPv4 address or
// an IPv6 /64; all clients of the socket are one peer. A free slot goes to the waiting peer with the fewest
// slots. A request that has waited for a second cuts the oldest request of the peer with the most slots,
// unless its own peer would then have more slots than that peer. So no peer blocks the others, however slowly
// it reads.
//
// It is safe for concurrent use, and must not be copied.
type Shares struct {
	Slots int                       // read-only
	Wait  time.Duration             // limit of the wait for a slot; read-only
	Full  func(http.ResponseWriter) // responds to a request that gets no slot; read-only
	Cut   func(from string)         // called after a request was cut, with the IP address of its peer; read-only

	mu      sync.Mutex
	held    []*sharing // sorted by the begin of the request, oldest first
	waiting []*sharing // oldest first
}

// sharing is a request that has a slot or waits for one. It is also the request's [http.ResponseWriter].
type sharing struct {
	http.ResponseWriter
	from   string // IP address of the peer
	peer   netip.Prefix
	cancel context.CancelCauseFunc
	slot   chan struct{} // closed when the request has a slot

	// Guarded by the mu of its Shares.
	cut bool
	by  netip.Prefix // peer of the request that has cut it

	mu       sync.Mutex
	isClosed bool // it was cut, or its handler has returned
}

// Limit returns h with its requests limited. Handlers with the same Shares share the slots.
func (s *Shares) Limit(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		from := remoteIP(r)
		q := &sharing{ResponseWriter: w, from: from, peer: networkOf(from), cancel: cancel, slot: make(chan struct{})}
		s.begin(q)
		defer s.end(q)
		if s.await(ctx, q) {
			h(q, r.WithContext(ctx))
		} else if ctx.Err() == nil {
			s.Full(w)
		}
	}
}

// begin adds a request.
func (s *Shares) begin(q *sharing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, q)
	s.grantLocked()
}

// end removes a request, and grants its slot to another one.
func (s *Shares) end(q *sharing) {
	q.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	isQ := func(other *sharing) bool { return other == q }
	s.held, s.waiting = slices.DeleteFunc(s.held, isQ), slices.DeleteFunc(s.waiting, isQ)
	s.grantLocked()
}

// grantLocked grants free slots to waiting requests.
func (s *Shares) grantLocked() {
	for len(s.held) < s.Slots && len(s.waiting) > 0 {
		next := s.nextLocked()
		q := s.waiting[next]
		s.waiting = slices.Delete(s.waiting, next, next+1)
		s.held = append(s.held, q)
		close(q.slot)
	}
}

// nextLocked returns the index of the waiting request that gets the next slot.
func (s *Shares) nextLocked() (next int) {
	if len(s.waiting) == 1 {
		return 0
	}
	slots := s.countLocked()
	for i, q := range s.waiting {
		if slots[q.peer] < slots[s.waiting[next].peer] {
			next = i
		}
	}
	return next
}

// countLocked returns the number of slots of each peer. The slot of a cut request counts for the peer that
// waits for it.
func (s *Shares) countLocked() map[netip.Prefix]int {
	slots := make(map[netip.Prefix]int)
	for _, q := range s.held {
		if q.cut {
			slots[q.by]++
		} else {
			slots[q.peer]++
		}
	}
	return slots
}

// await waits for a slot, and reports whether the request has one.
func (s *Shares) await(ctx context.Context, q *sharing) bool {
	select {
	case <-q.slot:
		return true
	default:
	}
	given, cancel := context.WithTimeout(ctx, s.Wait)
	defer cancel()
	patience := time.NewTicker(sharePatience)
	defer patience.Stop()
	for {
		select {
		case <-q.slot:
			return true
		case <-given.Done():
			return false
		case <-patience.C:
			if victim := s.victim(q); victim != nil {
				victim.cutOff()
				s.Cut(victim.from)
			}
		}
	}
}

// victim returns the request to cut for q; nil if there is none.
func (s *Shares) victim(q *sharing) *sharing {
	s.mu.Lock()
	defer s.mu.Unlock()
	slots := s.countLocked()
	var victim *sharing
	for _, h := range s.held {
		if !h.cut && slots[h.peer] > slots[q.peer]+1 && (victim == nil || slots[h.peer] > slots[victim.peer]) {
			victim = h
		}
	}
	if victim != nil {
		victim.cut, victim.by = true, q.peer
	}
	return victim
}

// close records that the handler has returned: the connection's deadline belongs to other responses from now
// on.
func (q *sharing) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.isClosed = true
}

// cutOff aborts the request and its response, also if the client does not read.
func (q *sharing) cutOff() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.isClosed { // its handler has returned
		return
	}
	q.isClosed = true
	q.cancel(errCut)
	_ = http.NewResponseController(q.ResponseWriter).SetWriteDeadline(time.Now()) // on an error the limit stays
}

// SetWriteDeadline implements the method that [http.ResponseController] calls.
func (q *sharing) SetWriteDeadline(deadline time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.isClosed {
		return errCut
	}
	return http.NewResponseController(q.ResponseWriter).SetWriteDeadline(deadline)
}

// Unwrap is called by [http.ResponseController].
func (q *sharing) Unwrap() http.ResponseWriter { return q.ResponseWriter }
