package liveness

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/pods/kube/api"
)

// Claim reserves the workload of a pod in the cluster for a restart or an eviction. An error means that the other
// pods of the workload forbid it at present. The caller must call done after the action, with acted false if nothing
// was done. Claim may take seconds.
type Claim func(ctx context.Context, pod *v1.Pod) (done func(acted bool), err error)

// unclaimedError is the error of a [Claim].
type unclaimedError struct{ error }

// errRecovered means that the probe recovered while the workload was claimed.
var errRecovered = &unclaimedError{errors.New("the probe does not fail any more")}

// claimed claims the workload of a task, and carries out the action.
func (a *Actor) claimed(ctx context.Context, t *task) error {
	if a.cfg.Claim == nil {
		return a.do(ctx, t)
	}
	done, err := a.cfg.Claim(ctx, t.pod)
	if err != nil {
		return &unclaimedError{err}
	}
	if !a.cfg.Failing(t.pod.UID, t.failure.Container, t.failure.Kind) {
		done(false)
		return errRecovered
	}
	err = a.do(ctx, t)
	done(!errors.Is(err, errOpened) && !errors.Is(err, api.ErrGone) && !errors.Is(err, api.ErrBlocked) && !errors.Is(err, api.ErrDenied))
	return err
}

// unclaimed handles an action that was not begun: it is decided about again, after a back-off if the claim failed.
func (l *loop) unclaimed(p *pending, o outcome, now time.Time) {
	l.giveBack(o.task.workload, now)
	p.next = now
	if o.err == errRecovered {
		return
	}
	p.blocks++
	wait := pace.Doubled(minBlockedWait, maxBackoff, p.blocks-1)
	p.blocked = now.Add(pace.Jitter(wait, wait+wait/2))
	p.next = p.blocked
	l.withheld(p, WithheldDisruption)
	l.recordOnce(p, o.task.pod, v1.EventTypeWarning, eventWithheld, o.err.Error()+"; it is tried again while the probe fails")
}
