package agent

import (
	"context"
	"sync"
	"time"
)

// trigger asks a loop to do its work. It coalesces: all requests that come before the loop
// takes them are one. A request that comes while the loop works is for the next time.
type trigger struct {
	name string        // of what the loop follows
	wake chan struct{} // holds a token while there is a request

	mu      sync.Mutex
	pending request
	since   time.Time // when the work under way was begun; zero: there is none
}

// request is why a loop is to do its work.
type request struct {
	cause   string       // for the log
	retry   bool         // what failed before is tried again, though it has not changed
	waiters []chan error // get what came of it
}

func newTrigger(name string) *trigger { return &trigger{name: name, wake: make(chan struct{}, 1)} }

// request asks for the work, and returns at once.
func (t *trigger) request(cause string, retry bool) { t.add(cause, retry, nil) }

// requestAndWait asks for the work, in which everything is tried again, and returns what came
// of it, or the cause of ctx at its end.
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

// add adds to the pending request. Its cause is the first one, or that of who waits.
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

// take returns the pending request, whose cause is "" where there is none.
func (t *trigger) take() request {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.pending
	t.pending = request{}
	return r
}

// setUnderWay notes when the work was begun; zero: it has ended.
func (t *trigger) setUnderWay(since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.since = since
}

// underWay returns when the work under way was begun; zero where there is none.
func (t *trigger) underWay() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.since
}

// done tells those who wait what came of the work.
func (r *request) done(err error) {
	for _, waiter := range r.waiters {
		waiter <- err
	}
}
