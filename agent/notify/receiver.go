package notify

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/daeace23/prober/agent/notify/format"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/pace"
)

const (
	settleTime  = 200 * time.Millisecond // to collect more changes before the book is updated
	firstPause  = time.Second            // after the first failure
	longestWait = 5 * time.Minute        // limit of the pause after repeated failures
	lastFlush   = 2 * time.Second        // for messages in flight when the agent stops
)

// transport sends messages. It returns a [*failure] where the kind of the error is known.
type transport interface {
	send(ctx context.Context, m *format.Message) (answer string, err error)
	// check returns an error if files or the command cannot be used. It sends nothing.
	check() error
	kind() string
	mergeable() bool
}

// receiver delivers to one destination. Only its own goroutine waits for the destination.
type receiver struct {
	spec       *config.Receiver
	external   string
	log        *slog.Logger
	counts     *counts
	exists     func(Key) bool
	sender     *sender
	send       transport
	persistent bool                            // pending incidents survive a restart
	changed    func()                          // is called when the book has changed
	take       func(*receiver) map[Key]*change // takes dirty
	before     *receiver                       // the replaced receiver of the same name, whose book this one takes over; nil: none
	saved      *savedReceiver                  // state of an earlier run; nil: none
	wake       chan struct{}
	quit       chan struct{} // closed when it is replaced
	sent       chan struct{} // receives when a message was sent
	done       chan struct{} // closed at the end of run

	// Guarded by Notifier.mu.
	dirty   map[Key]*change // changes that are not in the book yet
	started bool            // run was called

	mu       sync.Mutex // never held while something is sent
	book     *book
	sending  bool // a message is in flight
	health   health
	failures int       // in a row
	pause    time.Time // nothing is sent until then, after a failure
}

// health is the delivery status of a receiver.
type health struct {
	failing  time.Time // since when; zero: the last message was accepted, or there was none
	err      string
	refused  bool
	lastSent time.Time
	answer   string
}

func newReceiver(cfg *Config, configFile, external string, spec *config.Receiver, c *counts) *receiver {
	r := &receiver{
		spec: spec, external: external, log: cfg.Log.With("receiver", spec.Name), counts: c, exists: cfg.Exists, sender: newSender(spec, external, cfg.Current),
		persistent: cfg.StateFile != "", wake: make(chan struct{}, 1), quit: make(chan struct{}), sent: make(chan struct{}, 1), done: make(chan struct{}),
		dirty: make(map[Key]*change), book: newBook(spec),
	}
	switch {
	case spec.Webhook != nil:
		r.send = &webhook{spec, configFile, cfg.Dial}
	case spec.Exec != nil:
		r.send = &command{spec.Exec, cfg.Mark}
	default:
		r.send = &mailer{spec.Mail, configFile, cfg.Dial}
	}
	return r
}

// noteLocked queues the newest state of a probe. Notifier.mu is held.
func (r *receiver) noteLocked(x *change) {
	if old := r.dirty[x.key]; old != nil {
		if x.removed && old.uid != x.uid {
			return
		}
		x = x.mergeAfter(old)
	}
	r.dirty[x.key] = x
	wake(r.wake)
}

// run sends messages until ctx ends or the receiver is replaced.
func (r *receiver) run(ctx context.Context) {
	defer close(r.done)
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastFlush, cancel) })()
	var watch sync.WaitGroup
	defer watch.Wait()
	watch.Go(func() {
		select {
		case <-r.quit:
			cancel()
		case <-r.done:
		case <-requests.Done():
		}
	})
	defer cancel()
	r.takeOver()
	if err := r.send.check(); err != nil {
		r.log.Warn("receiver cannot be used as configured; will retry at the next message", "err", err)
	}
	var sending sync.WaitGroup
	for {
		groups, m, items, at := r.step(time.Now())
		if m != nil {
			sending.Go(func() { r.deliver(requests, groups, m, items) })
		}
		if !r.await(ctx, at) {
			break
		}
	}
	sending.Wait()
	if ctx.Err() == nil {
		return // the receiver that replaces it takes over
	}
	r.drain(time.Now())
	if !r.persistent {
		r.flush(requests)
	}
}

// await waits until at, for changes, or for the end of a delivery. It returns false when the receiver must
// stop.
func (r *receiver) await(ctx context.Context, at time.Time) bool {
	var due <-chan time.Time
	if !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-r.quit:
		return false
	case <-due:
		return true
	case <-r.sent:
		return true
	case <-r.wake:
	}
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-r.quit:
		return false
	case <-timer.C:
		return true
	}
}

// takeOver takes over the book of the replaced receiver, or the saved state of an earlier run.
func (r *receiver) takeOver() {
	now := time.Now()
	if r.before != nil {
		<-r.before.done
		left := r.take(r.before)
		r.mu.Lock()
		r.before.mu.Lock()
		r.book.takeOver(r.before.book, sameDestination(r.spec, r.before.spec), now)
		for _, c := range left {
			r.book.apply(c, now)
		}
		r.book.reselect(now)
		r.before.mu.Unlock()
		r.mu.Unlock()
		r.before = nil
	}
	if r.saved != nil {
		r.mu.Lock()
		r.saved.restore(r.book, now)
		r.saved = nil
		r.mu.Unlock()
	}
	r.changed()
}

func sameDestination(a, b *config.Receiver) bool {
	only := func(r *config.Receiver) *config.Receiver {
		return &config.Receiver{Webhook: r.Webhook, Exec: r.Exec, Mail: r.Mail}
	}
	return only(a).Equal(only(b))
}

// drain applies queued changes to the book. It reports whether one changed a state in it.
func (r *receiver) drain(now time.Time) bool {
	changes := r.take(r)
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.book.changes
	for _, c := range changes {
		r.book.apply(c, now)
	}
	return r.book.changes != before
}

// step applies queued changes, and returns the message to send now, or the time of the next step.
func (r *receiver) step(now time.Time) (groups []plan, m *format.Message, items []*item, at time.Time) {
	changed := r.drain(now)
	gone := r.missingProbes(now)
	r.mu.Lock()
	defer r.mu.Unlock()
	dropped := r.book.dropped
	if r.book.update(now, func(k Key) bool { return !gone[k] }) || changed {
		r.changed()
	}
	r.counts.dropped.Add(r.book.dropped - dropped)
	groups, at = r.book.next(now, r.send.mergeable())
	switch {
	case r.sending:
		return nil, nil, nil, r.book.nextUpdate(now)
	case len(groups) == 0:
		return nil, nil, nil, at
	case now.Before(r.pause):
		return nil, nil, nil, earlier(at, r.pause)
	}
	items = r.book.take(groups, now, r.sender.newest)
	r.sending = true
	return groups, r.sender.message(r.spec.Name, groups, items, now), items, at
}

// missingProbes returns which of the probes to check do not exist. It calls exists without a lock.
func (r *receiver) missingProbes(now time.Time) map[Key]bool {
	r.mu.Lock()
	keys := r.book.checkDue(now)
	r.mu.Unlock()
	gone := make(map[Key]bool)
	for _, k := range keys {
		if !r.exists(k) {
			gone[k] = true
		}
	}
	return gone
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// deliver sends a message and records the result. The book may change meanwhile.
func (r *receiver) deliver(ctx context.Context, groups []plan, m *format.Message, items []*item) {
	answer, err := r.send.send(ctx, m)
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	defer wake(r.sent)
	defer r.changed()
	r.sending = false
	f := asFailure(err)
	if f == nil {
		r.book.delivered(groups, items, now)
	} else {
		r.book.failed(items)
	}
	switch {
	case f == nil:
		r.counts.ok.Add(1)
	case ctx.Err() != nil:
		return // the agent stops, or the receiver is replaced
	case f.final:
		r.counts.refused.Add(1)
		r.book.refused(groups, now)
	default:
		r.counts.errors.Add(1)
	}
	r.healthLocked(answer, f, now)
}

func asFailure(err error) *failure {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	return &failure{text: err.Error()}
}

// healthLocked updates the health. It logs the first failure and the recovery.
func (r *receiver) healthLocked(answer string, f *failure, now time.Time) {
	h := &r.health
	if f == nil {
		r.failures, r.pause = 0, time.Time{}
		h.lastSent, h.answer = now, answer
		if !h.failing.IsZero() {
			r.log.Info("notifications are delivered again", "failedFor", now.Sub(h.failing).Round(time.Second).String())
		}
		h.failing, h.err, h.refused = time.Time{}, "", false
		return
	}
	wait := pace.Doubled(firstPause, longestWait, r.failures)
	r.failures++
	r.pause = now.Add(max(pace.Jitter(wait/2, wait+wait/2), f.after))
	if h.failing.IsZero() {
		h.failing = now
		r.log.Warn("notification was not delivered", "err", f.text, "retried", !f.final)
	}
	h.err, h.refused = f.text, f.final
}

// flush sends the pending messages once, when the agent stops.
func (r *receiver) flush(ctx context.Context) {
	now := time.Now()
	r.mu.Lock()
	r.book.force(now)
	r.mu.Unlock()
	for ctx.Err() == nil {
		r.mu.Lock()
		groups, _ := r.book.next(now, r.send.mergeable())
		if len(groups) == 0 {
			r.mu.Unlock()
			return
		}
		items := r.book.take(groups, now, r.sender.newest)
		m := r.sender.message(r.spec.Name, groups, items, now)
		r.mu.Unlock()
		if _, err := r.send.send(ctx, m); err != nil {
			return
		}
		r.mu.Lock()
		r.book.delivered(groups, items, now)
		r.mu.Unlock()
		r.counts.ok.Add(1)
	}
}

// retry makes all pending messages due now.
func (r *receiver) retry() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures, r.pause = 0, time.Time{}
	for _, g := range r.book.groups {
		g.notBefore = time.Time{}
	}
	wake(r.wake)
}
