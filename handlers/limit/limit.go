// Package limit bounds the concurrent attempts of handlers.
//
// The core does not bound them, because an attempt that hangs costs only memory and delays no other
// probe. A limit protects other resources: processes, descriptors, or a server that all attempts use. Any
// number of handlers can share one limit:
//
//	commands := limit.New(limit.Config{MaxInFlight: 20})
//	registry.Register("exec", "built in", commands.Wrap(exec))
//
// A handler that was bound in Go is wrapped in the same way:
//
//	h, err := exec.Bind(execprobe.Action{Command: []string{"pg_isready"}})
//	…
//	group.Add(key, group.Probe{Handler: commands.Wrap(h), …})
//
// An attempt without a free slot is deferred: it waits in first-come, first-served order, and then has
// the full timeout of its probe. If it gets no slot within a period of the probe, the tick is skipped
// with the reason no_slot, which decides nothing. [Limit.Stats] counts deferred attempts. An attempt
// keeps its slot until its handler returns, so a handler that ignores its deadline blocks a slot.
//
// limit.go has the slots, handler.go wraps handlers.
package limit

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/probe"
)

// Config configures a [Limit].
type Config struct {
	// MaxInFlight is the maximum number of concurrent attempts. 0 means no limit: attempts are only
	// counted.
	MaxInFlight int
}

// Limit bounds concurrent attempts. All handlers that [Limit.Wrap] returns share it. It is safe for
// concurrent use.
type Limit struct {
	mu       sync.Mutex
	max      int // 0 means no limit
	inFlight int
	deferred uint64
	waiting  list.List // elements are *waiter; the longest waiting one is first
}

// waiter is an attempt that waits for a slot.
type waiter struct {
	granted chan struct{} // closed when it has a slot
	entry   *list.Element // nil when it has a slot
}

// New returns a limit.
func New(cfg Config) *Limit {
	l := new(Limit)
	l.SetMaxInFlight(cfg.MaxInFlight)
	return l
}

// SetMaxInFlight changes [Config.MaxInFlight]. The change applies at once, but does not end attempts in
// flight.
func (l *Limit) SetMaxInFlight(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.max = max(n, 0)
	l.grantLocked()
}

// Stats is the state of a limit.
type Stats struct {
	MaxInFlight int    // 0 means no limit
	InFlight    int    // attempts in flight
	Waiting     int    // attempts that wait for a slot
	Deferred    uint64 // total number of attempts that had to wait for a slot
}

// Stats returns the current state of l.
func (l *Limit) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{MaxInFlight: l.max, InFlight: l.inFlight, Waiting: l.waiting.Len(), Deferred: l.deferred}
}

// acquire takes a slot. It waits for at most the duration limit. If ctx was cancelled, the error is its
// cause. Otherwise the error matches [probe.ErrNoSlot].
func (l *Limit) acquire(ctx context.Context, limit time.Duration) error {
	w := l.enter()
	if w == nil {
		return nil
	}
	if resume, ok := probe.SuspendTimeout(ctx); ok {
		defer resume()
	}
	pace.Wait(ctx, w.granted, limit)
	granted, ended := l.leave(w), ctx.Err()
	if granted && ended == nil {
		return nil
	}
	if granted {
		l.release()
	}
	if ended != nil && ended != context.DeadlineExceeded {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w within %v: %d attempts of the handler are in flight", probe.ErrNoSlot, limit, l.Stats().InFlight)
}

// enter takes a slot if one is free, and returns nil. Otherwise the attempt is deferred.
func (l *Limit) enter() *waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hasRoomLocked() { // implies that nobody waits
		l.inFlight++
		return nil
	}
	l.deferred++
	w := &waiter{granted: make(chan struct{})}
	w.entry = l.waiting.PushBack(w)
	return w
}

// leave removes w from the waiters, and reports whether it has got a slot.
func (l *Limit) leave(w *waiter) (granted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.entry == nil {
		return true
	}
	l.waiting.Remove(w.entry)
	return false
}

// release releases a slot.
func (l *Limit) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	l.grantLocked()
}

// grantLocked hands free slots to waiting attempts.
func (l *Limit) grantLocked() {
	for l.hasRoomLocked() && l.waiting.Len() > 0 {
		w := l.waiting.Remove(l.waiting.Front()).(*waiter)
		w.entry = nil
		l.inFlight++
		close(w.granted)
	}
}

func (l *Limit) hasRoomLocked() bool { return l.max == 0 || l.inFlight < l.max }
