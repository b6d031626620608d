// Package loss detects that the agent of a node is lost, and makes the pods of the node unready that
// ask for it. It watches the leases that agents renew. Read [Watcher] first.
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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/conditions"
)

// Annotation says what happens to a pod when the agent of its node is lost. With the value [Unready], the
// pod becomes unready.
const (
	Annotation = "prober.dev/on-agent-loss"
	Unready    = "unready"
)

// Cluster is the API server: [api.Client].
type Cluster interface {
	Leases(ctx context.Context, namespace string) (*api.LeaseList, error)
	WatchLeases(ctx context.Context, namespace, resourceVersion string) (watch.Interface, error)
	Lease(ctx context.Context, namespace, name string) (*api.Lease, error)
	DeleteLease(ctx context.Context, namespace string, l *api.Lease) error
	PodsOf(ctx context.Context, node string) ([]v1.Pod, error)
	NodeUID(ctx context.Context, name string) (types.UID, error)
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
)

// Watcher watches the leases of agents. An agent is lost if its lease has not changed for the duration in the
// lease, by the clock of this process. After an interruption of the connection to the API server, the durations
// of all leases start again, because agents could not renew them either. A deleted lease is forgotten.
//
// Nodes are scanned and pods patched in parallel, within limits: mark.go. The lease of a node that was deleted
// is itself deleted ten minutes after its agent was lost, if the garbage collector has not done so.
type Watcher struct {
	cfg     Config
	leases  map[string]*lease    // by name; owned by Run
	failing map[string]time.Time // end of the back-off, by namespace whose patches fail; owned by Run
}

// lease is the state of the lease of an agent.
type lease struct {
	renewed   metav1.MicroTime // by the agent's clock: only compared for equality
	changedAt time.Time        // when this process saw it change
	duration  time.Duration
	lost      bool      // it has expired, and its pods were listed
	retry     time.Time // when to patch pods again whose patches failed; zero: there are none
	check     time.Time // when to ask whether the node of a lost agent still exists
}

// New returns a watcher.
func New(cfg Config) *Watcher {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Watcher{cfg: cfg, failing: make(map[string]time.Time)}
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
		if !failing { // log once for each interruption
			w.cfg.Logger.Warn("the leases of agents cannot be followed; no agent counts as lost meanwhile", "error", err)
			failing = true
		}
		if pace.Wait(ctx, nil, pace.Jitter(wait/2, wait)); ctx.Err() != nil {
			return
		}
	}
}

// follow lists and watches the leases until the API server cannot be reached. followed reports whether the
// list succeeded.
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
			w.leases[one.Name] = old
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
		version, err = w.handleEvents(ctx, events, version)
		events.Stop()
		if err != nil {
			return true, err
		}
		if time.Since(began) < minBackoff {
			return true, errors.New("the watch of leases ended at once")
		}
	}
}

// handleEvents handles the events of a watch, and expired leases, until the watch ends. It returns the resource
// version from which the next watch begins.
func (w *Watcher) handleEvents(ctx context.Context, events watch.Interface, version string) (string, error) {
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
			if !ok { // the API server ends each watch after a while
				return version, nil
			}
			if e.Type == watch.Error {
				return "", apierrors.FromObject(e.Object)
			}
			l, ok := e.Object.(*api.Lease)
			if !ok {
				return "", fmt.Errorf("the watch of leases returned a %T", e.Object)
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

// saw records the present state of a lease. It ignores leases whose name does not match their holder: they are not
// leases of agents.
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
	*known = lease{renewed: l.Spec.RenewTime, changedAt: time.Now(), duration: defaultDuration}
	if l.Spec.LeaseDurationSeconds > 0 {
		known.duration = time.Duration(l.Spec.LeaseDurationSeconds) * time.Second
	}
}

// due returns when a lease expires, or the time of the next retry or check of an expired one.
func (l *lease) due() time.Time {
	switch {
	case !l.lost:
		return l.changedAt.Add(l.duration)
	case !l.retry.IsZero() && l.retry.Before(l.check):
		return l.retry
	default:
		return l.check
	}
}

// next returns the time until the first lease is due, at most an hour.
func (w *Watcher) next(now time.Time) time.Duration {
	wait := time.Hour
	for _, l := range w.leases {
		wait = min(wait, l.due().Sub(now))
	}
	return max(wait, 0)
}

// mustTurnUnready reports whether a pod has the annotation with the value unready, and a readiness gate of prober
// that is true.
func mustTurnUnready(pod *v1.Pod) bool {
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
