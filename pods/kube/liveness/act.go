package liveness

import (
	"context"
	"errors"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/pods/kube/api"
)

const (
	evictTimeout = 30 * time.Second
	stopExtra    = 3 * time.Minute // time for the runtime after the grace period
)

// errOpened means that the breaker opened while a preStop hook ran.
var errOpened = errors.New("the breaker has opened")

// task is the input of an action. It is read-only.
type task struct {
	p        *pending // not read by the action
	failure  Failure
	pod      *v1.Pod
	workload types.UID
	order    order
	hooked   bool
}

// act begins an action. In a dry run it only records an event.
func (l *loop) act(ctx context.Context, p *pending, pod *v1.Pod, o order, now time.Time) {
	t := &task{p: p, failure: p.Failure, pod: pod, workload: workloadOf(pod), order: o, hooked: p.hooked}
	l.guards.take(t.workload, pod.Namespace, now)
	if l.cfg.DryRun {
		l.guards.acted(p.key, now)
		l.withheld(p, WithheldDryRun)
		delete(l.pending, p.key)
		reason := "ProbeWouldRestart"
		if p.Mode == Evict {
			reason = "ProbeWouldEvict"
		}
		l.event(&p.Failure, pod, v1.EventTypeNormal, reason, p.message(pod, o)+" (dry run: nothing is done)")
		return
	}
	p.running = true
	l.begun[p.key.uid] = action{now, pod.Namespace}
	l.running.Go(func() {
		o := outcome{t, l.claimed(ctx, t)}
		select {
		case l.done <- o:
		case <-ctx.Done():
		}
	})
}

// do carries out an action.
func (a *Actor) do(ctx context.Context, t *task) error {
	a.log.Info("acting on a failed probe", "mode", t.failure.Mode, "namespace", t.pod.Namespace, "pod", t.pod.Name, "container", t.failure.Container, "kind", t.failure.Kind)
	if t.failure.Mode == Restart {
		return a.restart(ctx, t)
	}
	ctx, cancel := context.WithTimeout(ctx, evictTimeout)
	defer cancel()
	err := a.cfg.Evict(ctx, api.Pod{Namespace: t.pod.Namespace, Name: t.pod.Name, UID: t.pod.UID}, t.failure.Grace)
	if err == nil {
		a.event(&t.failure, t.pod, v1.EventTypeNormal, eventEvicted, t.failure.message(t.pod, t.order))
	}
	return err
}

// restart stops a container as the kubelet does: the time of the preStop hook is part of the grace
// period, but at least 2 s remain after it.
func (a *Actor) restart(ctx context.Context, t *task) error {
	if !t.hooked {
		a.event(&t.failure, t.pod, v1.EventTypeNormal, eventKilling, t.failure.message(t.pod, t.order))
	}
	rest := t.order.grace
	c, _ := containerNamed(&t.pod.Spec, t.failure.Container)
	if !t.order.kill && !t.hooked && rest > 0 && c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		begun := time.Now()
		if err := a.hook(ctx, t, c); err != nil && ctx.Err() == nil {
			a.log.Warn("a preStop hook failed", "namespace", t.pod.Namespace, "pod", t.pod.Name, "container", c.Name, "error", err)
			a.event(&t.failure, t.pod, v1.EventTypeWarning, eventPreStop, "PreStopHook failed")
		}
		rest -= time.Since(begun)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case a.Doubts().About(scopeOf(t.pod)).Open != "":
			return errOpened
		}
	}
	if rest = max(rest, minGrace); t.order.kill {
		rest = 0
	}
	ctx, cancel := context.WithTimeout(ctx, rest+stopExtra)
	defer cancel()
	return a.cfg.Stop(ctx, t.failure.ContainerID, rest)
}

// ended handles the outcome of an action. If the failure may continue, it is decided about again later.
func (l *loop) ended(o outcome, now time.Time) {
	p, mode := o.task.p, o.task.failure.Mode
	p.running = false
	delete(l.begun, p.key.uid)
	if l.pending[p.key] != p { // a later container has failed meanwhile
		p = &pending{Failure: o.task.failure, key: o.task.p.key, recorded: map[string]bool{}, counted: map[string]bool{}}
	}
	if _, ok := errors.AsType[*unclaimedError](o.err); ok {
		l.unclaimed(p, o, now)
		return
	}
	switch {
	case o.err == nil:
		l.count(func(c *Counts) { c.Done[mode]++ })
		l.actedOn(p, now)
	case errors.Is(o.err, errOpened):
		l.giveBack(o.task.workload, now)
		p.hooked, p.next = true, now
	case errors.Is(o.err, api.ErrGone):
		l.giveBack(o.task.workload, now)
		l.withheld(p, WithheldGone)
		l.remove(p)
	case errors.Is(o.err, api.ErrBlocked):
		l.giveBack(o.task.workload, now)
		l.blocked(p, o, now)
	case errors.Is(o.err, api.ErrDenied):
		l.giveBack(o.task.workload, now)
		l.failed(p, o)
		l.remove(p)
	default:
		l.failed(p, o)
		l.actedOn(p, now)
	}
}

// giveBack returns the tokens of an action that did nothing, and wakes the failures that wait for tokens.
func (l *loop) giveBack(workload types.UID, now time.Time) {
	l.guards.giveBack(workload)
	for _, p := range l.pending {
		if p.reason == WithheldBudget {
			p.next = now
		}
	}
}

// remove forgets a failure, unless a newer one has replaced it.
func (l *loop) remove(p *pending) {
	if l.pending[p.key] == p {
		delete(l.pending, p.key)
	}
}

// actedOn makes a failure wait for the effect of an action.
func (l *loop) actedOn(p *pending, now time.Time) {
	l.guards.acted(p.key, now)
	p.acted = true
	p.hooked = false
	p.next = l.guards.backoffs[p.key].next(l.cfg.Backoff)
}

// blocked delays an eviction that a PodDisruptionBudget forbids.
func (l *loop) blocked(p *pending, o outcome, now time.Time) {
	p.blocks++
	wait := pace.Doubled(minBlockedWait, maxBackoff, p.blocks-1)
	p.blocked = now.Add(pace.Jitter(wait, wait+wait/2))
	p.next = p.blocked
	l.withheld(p, WithheldBlocked)
	l.recordOnce(p, o.task.pod, v1.EventTypeWarning, eventWithheld, strings.TrimSuffix(o.err.Error(), ".")+"; it is tried again while the probe fails")
}

// failed counts, logs and records a failed action.
func (l *loop) failed(p *pending, o outcome) {
	f := &o.task.failure
	l.count(func(c *Counts) { c.Failed[f.Mode]++ })
	l.log.Warn("the action on a failed probe failed", "mode", f.Mode, "namespace", f.Pod.Namespace, "pod", f.Pod.Name, "container", f.Container, "error", o.err)
	l.recordOnce(p, o.task.pod, v1.EventTypeWarning, eventFailed, o.err.Error())
}
