package liveness

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/pods/kube/api"
)

// Claim asks whether a pod may be restarted or evicted, as far as the other pods of its workload in the cluster
// are concerned: the error says why not at present. done must be called after the action; acted is false
// if nothing was done. It may take seconds.
type Claim func(ctx context.Context, pod *v1.Pod) (done func(acted bool), err error)

// unclaimedError is the error of a [Claim].
type unclaimedError struct{ error }

// errRecovered means that the probe recovered while the workload was claimed.
var errRecovered = &unclaimedError{errors.New("the probe does not fail any more")}

// claimed carries out an action, if the rest of its workload allows it.
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

// unclaimed makes an action wait that was not begun.
func (l *loop) unclaimed(p *pending, o outcome, now time.Time) {
	l.giveBack(o.task.workload, now)
	p.next = now
	if o.err == errRecovered {
		return
	}
	p.blocks++
	wait := pace.Doubled(blockedFirst, backoffMost, p.blocks-1)
	p.blocked = now.Add(pace.Jitter(wait, wait+wait/2))
	p.next = p.blocked
	l.withheld(p, WithheldDisruption)
	l.tell(p, o.task.pod, v1.EventTypeWarning, eventWithheld, o.err.Error()+"; it is tried again while the probe fails")
}
