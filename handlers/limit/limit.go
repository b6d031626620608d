// Package limit bounds the attempts of a handler that are in flight at the same time.
//
// The core does not bound them: an attempt that hangs costs memory and delays no other probe. A
// limit is for what attempts use besides: processes, descriptors, or a server that all of them
// ask. It is one value for as many handlers as share it:
//
//	commands := limit.New(limit.Config{MaxInFlight: 20})
//	registry.Register("exec", "built in", commands.Wrap(exec))
//
// What was bound in Go is wrapped in the same way:
//
//	h, err := exec.Bind(execprobe.Action{Command: []string{"pg_isready"}})
//	…
//	group.Add(key, group.Probe{Handler: commands.Wrap(h), …})
//
// An attempt without a free slot is deferred: it waits, first come, first served, and then has the
// whole timeout of its probe. After a period of the probe without a slot, the tick is skipped with
// the reason no_slot, which decides nothing. [Limit.Stats] counts what was deferred. An attempt keeps
// its slot until its handler returns: one that does not heed its deadline takes it from the others.
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
	// MaxInFlight is the largest number of attempts that are in flight at the same time. 0 means
	// any number: then they are counted only.
	MaxInFlight int
}

// Limit is a limit of attempts in flight, which the handlers that [Limit.Wrap] returns share. It is
// safe for concurrent use.
type Limit struct {
	mu       sync.Mutex
	max      int // 0: any number
	inFlight int
	deferred uint64
	waiting  list.List // of *waiter; the one that has waited for longest comes first
}

// waiter is an attempt that waits for a slot.
type waiter struct {
	granted chan struct{} // closed when it has one
	entry   *list.Element // nil when it has one
}

// New returns a limit.
func New(cfg Config) *Limit {
	l := new(Limit)
	l.SetMaxInFlight(cfg.MaxInFlight)
	return l
}

// SetMaxInFlight changes [Config.MaxInFlight]. It applies at once, except that no attempt in flight
// is ended.
func (l *Limit) SetMaxInFlight(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.max = max(n, 0)
	l.grantLocked()
}

// Stats are the state of a limit.
type Stats struct {
	MaxInFlight int    // 0: any number
	InFlight    int    // attempts now
	Waiting     int    // attempts that wait for a slot now
	Deferred    uint64 // attempts that have waited for a slot, so far
}

// Stats returns the current state of l.
func (l *Limit) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{MaxInFlight: l.max, InFlight: l.inFlight, Waiting: l.waiting.Len(), Deferred: l.deferred}
}

// acquire takes a slot. It waits for one for most at the longest. The error is the cause of ctx if
// that was cancelled, and otherwise matches [probe.ErrNoSlot].
func (l *Limit) acquire(ctx context.Context, most time.Duration) error {
	w := l.enter()
	if w == nil {
		return nil
	}
	if resume, ok := probe.SuspendTimeout(ctx); ok {
		defer resume()
	}
	pace.Wait(ctx, w.granted, most)
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
	return fmt.Errorf("%w within %v: %d attempts of the handler are in flight", probe.ErrNoSlot, most, l.Stats().InFlight)
}

// enter takes a slot if one is free, and returns nil. Otherwise the attempt is deferred.
func (l *Limit) enter() *waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hasRoomLocked() { // then nobody waits
		l.inFlight++
		return nil
	}
	l.deferred++
	w := &waiter{granted: make(chan struct{})}
	w.entry = l.waiting.PushBack(w)
	return w
}

// leave ends the wait of w, and reports whether it has a slot.
func (l *Limit) leave(w *waiter) (granted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.entry == nil {
		return true
	}
	l.waiting.Remove(w.entry)
	return false
}

// release gives a slot back.
func (l *Limit) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	l.grantLocked()
}

// grantLocked gives free slots to attempts that wait.
func (l *Limit) grantLocked() {
	for l.hasRoomLocked() && l.waiting.Len() > 0 {
		w := l.waiting.Remove(l.waiting.Front()).(*waiter)
		w.entry = nil
		l.inFlight++
		close(w.granted)
	}
}

func (l *Limit) hasRoomLocked() bool { return l.max == 0 || l.inFlight < l.max }
