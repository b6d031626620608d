package controller

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/pods/kube/api"
)

// LeaseName is the name of the lease whose holder writes.
const LeaseName = "prober-controller"

// Times of the lease.
const (
	leaseTime  = 15 * time.Second // without a change, after which another process may take it
	renewEvery = 5 * time.Second
	// writeTime is how long its holder may write after the begin of a renewal. It is less than leaseTime, since the
	// API server may still process a request that the holder has given up.
	writeTime = 10 * time.Second
)

// leader takes the lease, and renews it. Clocks of several processes are never compared: a lease is expired if this
// process has seen no change for leaseTime.
type leader struct {
	cluster   Cluster
	namespace string
	identity  string
	log       *slog.Logger
	changed   func() // called after the lease was taken

	seen   api.LeaseSpec // owned by run
	seenAt time.Time     // when it changed

	mu    sync.Mutex
	until time.Time // of the right to write
}

// deadline returns when writes must have ended. It returns false if this process must not write.
func (l *leader) deadline(now time.Time) (until time.Time, holds bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until, now.Before(l.until)
}

// run takes and renews the lease until ctx ends.
func (l *leader) run(ctx context.Context) {
	held, failing := false, false
	for ctx.Err() == nil {
		begun := time.Now()
		renewed, err := l.renew(ctx)
		if renewed {
			l.mu.Lock()
			l.until = begun.Add(writeTime)
			l.mu.Unlock()
			l.changed()
		}
		switch _, holds := l.deadline(time.Now()); {
		case holds && !held:
			l.log.Info("this process holds the lease, and writes", "lease", LeaseName, "identity", l.identity)
			held = true
		case held && !holds:
			l.log.Warn("this process no longer holds the lease, and does not write", "lease", LeaseName, "identity", l.identity)
			held = false
		}
		if err != nil && !failing && ctx.Err() == nil {
			l.log.Warn("the lease cannot be read or renewed", "lease", LeaseName, "error", err)
		}
		failing = err != nil
		pace.Wait(ctx, nil, max(0, time.Until(begun.Add(renewEvery))))
	}
}

// renew creates, takes or renews the lease. It reports whether this process has done so.
func (l *leader) renew(ctx context.Context) (renewed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	lease, err := l.cluster.Lease(ctx, l.namespace, LeaseName)
	if apierrors.IsNotFound(err) {
		lease = &api.Lease{ObjectMeta: metav1.ObjectMeta{Name: LeaseName}, Spec: l.next()}
		return taken(l.cluster.CreateLease(ctx, l.namespace, lease))
	}
	if err != nil {
		return false, err
	}
	if lease.Spec.HolderIdentity != l.seen.HolderIdentity || !lease.Spec.RenewTime.Equal(&l.seen.RenewTime) {
		l.seen, l.seenAt = lease.Spec, time.Now()
	}
	holder := lease.Spec.HolderIdentity
	if holder != "" && holder != l.identity && time.Since(l.seenAt) < leaseTime {
		return false, nil
	}
	lease.Spec = l.next()
	return taken(l.cluster.UpdateLease(ctx, l.namespace, lease))
}

// taken judges the error of a write of the lease. It is none if another process was faster.
func taken(err error) (bool, error) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	return err == nil, err
}

func (l *leader) next() api.LeaseSpec {
	return api.LeaseSpec{HolderIdentity: l.identity, LeaseDurationSeconds: int32(leaseTime / time.Second), RenewTime: metav1.NowMicro()}
}

// release gives up the lease, if this process holds it, so that another one need not wait. Nothing may be written
// afterwards.
func (l *leader) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewEvery)
	defer cancel()
	lease, err := l.cluster.Lease(ctx, l.namespace, LeaseName)
	if err != nil || lease.Spec.HolderIdentity != l.identity {
		return
	}
	lease.Spec = api.LeaseSpec{LeaseDurationSeconds: 1, RenewTime: metav1.NowMicro()}
	if err := l.cluster.UpdateLease(ctx, l.namespace, lease); err != nil {
		l.log.Warn("the lease cannot be released; it expires", "lease", LeaseName, "error", err)
	}
}
