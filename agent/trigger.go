package agent

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// trigger requests work from a loop. It coalesces the requests that come before the loop takes
// them. A request that comes while the loop works is for the next time.
type trigger struct {
	name    string                    // of what the loop reloads
	wake    chan struct{}             // holds a token while there is a request
	started atomic.Pointer[time.Time] // when the work under way was started; nil for none

	mu      sync.Mutex
	pending request
}

// request is a request for work.
type request struct {
	cause   string       // for the log
	retry   bool         // also try again what failed before and has not changed
	waiters []chan error // for the result
}

func newTrigger(name string) *trigger { return &trigger{name: name, wake: make(chan struct{}, 1)} }

// request requests work, and returns at once.
func (t *trigger) request(cause string, retry bool) { t.add(cause, retry, nil) }

// requestAndWait requests work with retry, and returns its result, or the cause of ctx when that
// ends.
func (t *trigger) requestAndWait(ctx context.Context, cause string) error {
	waiter := make(chan error, 1)
	t.add(cause, true, waiter)
	select {
	case err := <-waiter:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// add adds to the pending request. The cause is the first one, or that of a caller that waits.
func (t *trigger) add(cause string, retry bool, waiter chan error) {
	t.mu.Lock()
	p := &t.pending
	if p.cause == "" || waiter != nil {
		p.cause = cause
	}
	p.retry = p.retry || retry
	if waiter != nil {
		p.waiters = append(p.waiters, waiter)
	}
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// take returns the pending request; its cause is "" if there is none.
func (t *trigger) take() request {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.pending
	t.pending = request{}
	return r
}

// underWay returns how long the work under way has taken; 0 if there is none.
func (t *trigger) underWay() time.Duration {
	if started := t.started.Load(); started != nil {
		return time.Since(*started)
	}
	return 0
}

// done sends the result of the work to the waiters.
func (r *request) done(err error) {
	for _, waiter := range r.waiters {
		waiter <- err
	}
}
