// Package loss notices that the agent of a node is lost, and makes those pods of the node unready that
// ask for it. It follows the leases that agents renew. Read [Watcher] first.
package loss

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/conditions"
)

// Annotation is what a pod asks for when the agent of its node is lost, and [Unready] the value that
// makes it unready.
const (
	Annotation = "prober.dev/on-agent-loss"
	Unready    = "unready"
)

// Cluster is the API server: [api.Client].
type Cluster interface {
	Leases(ctx context.Context, namespace string) (*api.LeaseList, error)
	WatchLeases(ctx context.Context, namespace, resourceVersion string) (watch.Interface, error)
	Lease(ctx context.Context, namespace, name string) (*api.Lease, error)
	PodsOf(ctx context.Context, node string) ([]v1.Pod, error)
	conditions.Patcher
}

var _ Cluster = (*api.Client)(nil)

// Config is what a [Watcher] needs.
type Config struct {
	Cluster   Cluster
	Namespace string // of the leases
	Logger    *slog.Logger
	DryRun    bool // log what would be written
}

// Limits of a [Watcher].
const (
	defaultDuration = 40 * time.Second // of a lease that has none
	minBackoff      = time.Second
	maxBackoff      = 30 * time.Second
	between         = 50 * time.Millisecond // between two patches
	maxFailed       = 3                     // patches of a node, until the API server counts as away
)

// Watcher follows the leases of agents. An agent is lost if its lease has not changed for its duration,
// by the clock of this process, while the API server could be reached: after an interruption all leases
// begin anew, because agents could not renew them either. A lease that is deleted is forgotten.
type Watcher struct {
	cfg    Config
	leases map[string]*lease // by name; owned by Run
}

// lease is what is known about a lease.
type lease struct {
	renewed  metav1.MicroTime // as the agent's clock says: it is only compared for equality
	at       time.Time        // when this process saw it change
	duration time.Duration
	lost     bool // its pods were taken care of
}

// New returns a watcher.
func New(cfg Config) *Watcher {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Watcher{cfg: cfg}
}

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	failing := false
	for wait := minBackoff; ; wait = min(2*wait, maxBackoff) {
		followed, err := w.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if followed {
			wait, failing = minBackoff, false
		}
		if !failing { // once an interruption
			w.cfg.Logger.Warn("the leases of agents cannot be followed; no agent counts as lost meanwhile", "error", err)
			failing = true
		}
		if pace.Wait(ctx, nil, pace.Jitter(wait/2, wait)); ctx.Err() != nil {
			return
		}
	}
}

// follow lists the leases, and acts on them until the API server cannot be reached. followed is true if
// the list was got.
func (w *Watcher) follow(ctx context.Context) (followed bool, err error) {
	list, err := w.cfg.Cluster.Leases(ctx, w.cfg.Namespace)
	if err != nil {
		return false, err
	}
	known := w.leases
	w.leases = make(map[string]*lease)
	for i := range list.Items {
		one := &list.Items[i]
		w.saw(one)
		if old := known[one.Name]; old != nil && old.lost && old.renewed.Equal(&one.Spec.RenewTime) {
			w.leases[one.Name].lost = true
		}
	}
	w.cfg.Logger.Info("following the leases of agents", "namespace", w.cfg.Namespace, "leases", len(list.Items))
	version := list.ResourceVersion
	for {
		events, err := w.cfg.Cluster.WatchLeases(ctx, w.cfg.Namespace, version)
		if err != nil {
			return true, err
		}
		began := time.Now()
		version, err = w.until(ctx, events, version)
		events.Stop()
		if err != nil {
			return true, err
		}
		if time.Since(began) < minBackoff {
			return true, errors.New("the watch of leases ended at once")
		}
	}
}

// until acts until a watch ends, and returns the version that the next one begins after.
func (w *Watcher) until(ctx context.Context, events watch.Interface, version string) (string, error) {
	for {
		expiry := time.NewTimer(w.next(time.Now()))
		select {
		case <-ctx.Done():
			expiry.Stop()
			return "", ctx.Err()
		case <-expiry.C:
			if err := w.expire(ctx); err != nil {
				return "", err
			}
		case e, ok := <-events.ResultChan():
			expiry.Stop()
			if !ok { // an API server ends each watch after a while
				return version, nil
			}
			if e.Type == watch.Error {
				return "", apierrors.FromObject(e.Object)
			}
			l, ok := e.Object.(*api.Lease)
			if !ok {
				return "", fmt.Errorf("the watch of leases has a %T", e.Object)
			}
			switch version = l.ResourceVersion; e.Type {
			case watch.Added, watch.Modified:
				w.saw(l)
			case watch.Deleted:
				delete(w.leases, l.Name)
			}
		}
	}
}

// saw takes a lease as it is now. A lease with another name than that of its holder is not an agent's.
func (w *Watcher) saw(l *api.Lease) {
	node := l.Spec.HolderIdentity
	if node == "" || l.Name != api.LeaseName(node) {
		return
	}
	known := w.leases[l.Name]
	if known == nil {
		known = &lease{}
		w.leases[l.Name] = known
	} else if known.renewed.Equal(&l.Spec.RenewTime) {
		return
	}
	if known.lost {
		w.cfg.Logger.Info("the agent of a node is back", "node", node)
	}
	*known = lease{renewed: l.Spec.RenewTime, at: time.Now(), duration: defaultDuration}
	if l.Spec.LeaseDurationSeconds > 0 {
		known.duration = time.Duration(l.Spec.LeaseDurationSeconds) * time.Second
	}
}

// next returns how long it takes until the next lease expires.
func (w *Watcher) next(now time.Time) time.Duration {
	wait := time.Hour
	for _, l := range w.leases {
		if !l.lost {
			wait = min(wait, l.at.Add(l.duration).Sub(now))
		}
	}
	return max(wait, 0)
}

// expire acts on the leases that have expired. It asks for each of them again, in case that its watch
// is late. The error is that of an API server that cannot be reached.
func (w *Watcher) expire(ctx context.Context) error {
	for name, l := range w.leases {
		if l.lost || time.Since(l.at) < l.duration {
			continue
		}
		now, err := w.cfg.Cluster.Lease(ctx, w.cfg.Namespace, name)
		if apierrors.IsNotFound(err) {
			delete(w.leases, name)
			continue
		}
		if err != nil {
			return err
		}
		if !l.renewed.Equal(&now.Spec.RenewTime) {
			w.saw(now)
			continue
		}
		if err := w.unready(ctx, now.Spec.HolderIdentity, l.duration); err != nil {
			return err
		}
		l.lost = true
	}
	return nil
}

// unready makes the pods of a node unready that ask for it.
func (w *Watcher) unready(ctx context.Context, node string, after time.Duration) error {
	pods, err := w.cfg.Cluster.PodsOf(ctx, node)
	if err != nil {
		return err
	}
	log := w.cfg.Logger.With("node", node)
	log.Warn("the agent of a node is lost", "pods", len(pods), "after", after)
	var failed []error
	for i := range pods {
		pod := &pods[i]
		if !asks(pod) {
			continue
		}
		log := log.With("namespace", pod.Namespace, "pod", pod.Name)
		if w.cfg.DryRun {
			log.Info("dry run: a pod would be made unready")
			continue
		}
		err := w.cfg.Cluster.PatchConditions(ctx, api.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, []v1.PodCondition{{
			Type: conditions.Ready, Status: v1.ConditionFalse, Reason: conditions.AgentLost,
			Message: fmt.Sprintf("the agent of node %s has not renewed its lease for %s", node, after), LastTransitionTime: metav1.Now(),
		}})
		switch {
		case err == nil:
			log.Info("a pod was made unready")
		case errors.Is(err, api.ErrGone):
		case errors.Is(err, api.ErrDenied):
			log.Warn("a pod cannot be made unready", "error", err)
		default: // one pod must not keep the others from being written
			if failed = append(failed, err); len(failed) == maxFailed {
				return errors.Join(failed...)
			}
		}
		if pace.Wait(ctx, nil, between); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.Join(failed...)
}

// asks reports whether a pod asks to be unready without an agent, and is ready by the word of one.
func asks(pod *v1.Pod) bool {
	if pod.Annotations[Annotation] != Unready || pod.DeletionTimestamp != nil {
		return false
	}
	gated, ready := false, false
	for _, g := range pod.Spec.ReadinessGates {
		gated = gated || g.ConditionType == conditions.Ready
	}
	for _, c := range pod.Status.Conditions {
		ready = ready || c.Type == conditions.Ready && c.Status == v1.ConditionTrue
	}
	return gated && ready
}
