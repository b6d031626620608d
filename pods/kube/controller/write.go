package controller

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/daeace23/prober/internal/outbound"
	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/policy"
)

// Limits of writes.
const (
	writesAtOnce = 8
	statusEvery  = 2 * time.Second  // least time between two writes of the status of a policy
	showTime     = 10 * time.Second // a written object is not written again before the watch shows it, or this has passed
	minBackoff   = time.Second      // after a failed write of an object, doubled
	maxBackoff   = 30 * time.Second
	reportEvery  = time.Minute // least time between two log messages about failed writes
)

// write is how far the writes of an object are.
type write struct {
	since    time.Time // when the object began to differ
	busy     bool      // a request is in flight
	begun    time.Time // the last one
	after    time.Time // the next one begins at the earliest
	failures int       // failed requests in a row
	awaited  bool      // the watch has not shown version yet
	version  string    // resource version of the last write; "" after a deletion
}

// shown records the resource version that the watch shows. every is the least time between two writes.
func (w *write) shown(version string, every time.Duration) {
	if w.awaited && version == w.version {
		w.awaited, w.after = false, w.begun.Add(every)
	}
}

// begin records the begin of a write.
func (w *write) begin(now time.Time, every time.Duration) {
	w.busy, w.begun, w.after = true, now, now.Add(every)
}

// end records the end of a write. shown is the resource version that the watch shows.
func (w *write) end(version, shown string, err error) {
	w.busy = false
	switch {
	case err != nil:
		wait := pace.Doubled(minBackoff, maxBackoff, w.failures)
		w.failures++
		w.after = later(w.after, time.Now().Add(pace.Jitter(wait/2, wait)))
	case version != shown:
		w.failures, w.awaited, w.version = 0, true, version
		w.after = time.Now().Add(showTime)
	default:
		w.failures = 0
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// first returns the key with a write that may begin, and that waits the longest. It returns the zero K if there is
// none, and the time of the next one, if it is before next.
func first[K comparable](all map[K]struct{}, writeOf func(K) *write, now, next time.Time) (found K, at time.Time) {
	var since time.Time
	for k := range all {
		switch w := writeOf(k); {
		case w.busy:
		case w.after.After(now):
			if w.after.Before(next) {
				next = w.after
			}
		case since.IsZero() || w.since.Before(since):
			found, since = k, w.since
		}
	}
	return found, next
}

// work computes and writes until ctx ends, and until all writes have ended.
func (c *Controller) work(ctx context.Context) {
	for ctx.Err() == nil {
		next := c.turn(ctx)
		pace.Wait(ctx, c.wake, time.Until(next))
	}
	c.writes.Wait()
}

// turn computes the stale nodes, and begins the writes that may begin now. It returns when the next one may.
func (c *Controller) turn(ctx context.Context) (next time.Time) {
	s := c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	idle := now.Add(time.Hour)
	if s.unlisted > 0 {
		return idle
	}
	s.settle()
	until, holds := c.leader.deadline(now)
	if c.cfg.DryRun {
		until, holds = idle, true
	}
	if !holds || s.failing > 0 {
		return idle
	}
	for {
		if at := c.tokens.Next(c.rate); at.After(now) {
			return at
		}
		n, next := first(s.waiting, func(n *node) *write { return &n.write }, now, idle)
		e, status, next := c.firstPolicy(now, next)
		if n == nil && e == nil {
			return next
		}
		select {
		case c.slots <- struct{}{}:
		default:
			return idle // the end of a write wakes
		}
		c.tokens = c.tokens.Take(c.rate, now)
		ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
		end := func() { cancel(); <-c.slots; c.signal() }
		if c.lastPolicy = n == nil || e != nil && !c.lastPolicy; c.lastPolicy {
			c.writeStatus(ctx, e, status, end)
		} else {
			c.writeNode(ctx, n, end)
		}
	}
}

// firstPolicy returns the policy whose status must be written first, and the status. It is nil if there is none.
func (c *Controller) firstPolicy(now, next time.Time) (*entry, *policy.Status, time.Time) {
	for {
		e, next := first(c.state.touched, func(e *entry) *write { return &e.write }, now, next)
		if e == nil {
			return nil, nil, next
		}
		if status := e.status(); !same(status, &e.observed) {
			return e, status, next
		}
		delete(c.state.touched, e)
		e.write.failures = 0
	}
}

// writeNode begins to write the NodeProbes of a node, or to delete it.
func (c *Controller) writeNode(ctx context.Context, n *node, end func()) {
	s, object := c.state, n.object()
	n.write.begin(time.Now(), 0)
	c.writes.Go(func() {
		defer end()
		version, err := c.sendNode(ctx, object)
		s.mu.Lock()
		if n.write.end(version, n.version, err); err == nil && c.cfg.DryRun {
			delete(s.waiting, n)
		} else {
			s.stale[n] = struct{}{} // a node that is gone may be forgotten now
		}
		s.mu.Unlock()
		c.report(ctx, err, "the policies of a node cannot be written; it is tried again", "node", n.name)
	})
}

func (c *Controller) sendNode(ctx context.Context, object *policy.NodeProbes) (version string, err error) {
	log := c.log.With("node", object.Name, "policies", len(object.Spec.Policies))
	switch {
	case c.cfg.DryRun:
		log.Info("dry run: the policies of a node would be written")
		return object.ResourceVersion, nil
	case len(object.Spec.Policies) == 0:
		err = c.cfg.Cluster.DeleteNodeProbes(ctx, object)
	case object.ResourceVersion == "":
		version, err = c.cfg.Cluster.CreateNodeProbes(ctx, object)
	default:
		version, err = c.cfg.Cluster.UpdateNodeProbes(ctx, object)
	}
	if err == nil {
		log.Debug("the policies of a node were written")
	}
	return version, err
}

// writeStatus begins to write the status of a policy.
func (c *Controller) writeStatus(ctx context.Context, e *entry, status *policy.Status, end func()) {
	s := c.state
	e.write.begin(time.Now(), statusEvery)
	object := &policy.ProbePolicy{Status: *status}
	object.Namespace, object.Name, object.UID, object.ResourceVersion = e.policy.Namespace, e.policy.Name, e.policy.UID, e.version
	c.writes.Go(func() {
		defer end()
		version, err := c.sendStatus(ctx, object)
		s.mu.Lock()
		if e.write.end(version, e.version, err); err == nil && c.cfg.DryRun {
			delete(s.touched, e)
		}
		s.mu.Unlock()
		c.report(ctx, err, "the status of a policy cannot be written; it is tried again", "namespace", object.Namespace, "policy", object.Name)
	})
}

func (c *Controller) sendStatus(ctx context.Context, object *policy.ProbePolicy) (version string, err error) {
	log := c.log.With("namespace", object.Namespace, "policy", object.Name)
	if c.cfg.DryRun {
		log.Info("dry run: the status of a policy would be written", "pods", object.Status.Pods)
		return object.ResourceVersion, nil
	}
	if version, err = c.cfg.Cluster.PatchPolicyStatus(ctx, object); err == nil {
		log.Debug("the status of a policy was written")
	}
	return version, err
}

// report logs a failed write, at most one each minute. It ignores errors that mean that the watch is late.
func (c *Controller) report(ctx context.Context, err error, message string, attrs ...any) {
	if err == nil || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || errors.Is(err, api.ErrGone) {
		return
	}
	c.mu.Lock()
	now := time.Now()
	due := c.reported.IsZero() || now.Sub(c.reported) >= reportEvery
	if due {
		c.reported = now
	}
	c.mu.Unlock()
	if due {
		c.log.Warn(message, append(attrs, "error", outbound.Failure(ctx, err).Error())...)
	}
}
