package loss

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/conditions"
)

// Limits of requests to the API server, and times.
const (
	nodesAtOnce         = 8
	nodesInBatch        = 64 // the pods of a batch are patched before further nodes are scanned
	patchesAtOnce       = 16
	patchesPerNamespace = 4
	betweenPatches      = 10 * time.Millisecond
	mostFailures        = 3                // failed patches of a namespace before it waits
	retryAfter          = 30 * time.Second // until failed pods and namespaces are tried again
	nodeGoneAfter       = 10 * time.Minute // from the loss of an agent to the first check whether its node exists
	nodeCheckInterval   = time.Hour        // between two such checks
)

// node is a node whose lease is due.
type node struct {
	name  string // of the lease
	lease *lease

	// From the API server.
	now  *api.Lease
	pods []v1.Pod
	gone bool // its lease was deleted
	err  error
}

// expire handles the leases that are due: expired ones, ones with pods to patch again, and ones whose node may
// have been deleted. It begins with the most recently lost agents. It returns an error if the API server cannot
// be reached.
func (w *Watcher) expire(ctx context.Context) error {
	now := time.Now()
	var expired, old []*node
	for name, l := range w.leases {
		switch {
		case now.Before(l.due()):
		case l.lost && (l.retry.IsZero() || now.Before(l.retry)):
			old = append(old, &node{name: name, lease: l})
		default:
			expired = append(expired, &node{name: name, lease: l})
		}
	}
	slices.SortFunc(expired, func(a, b *node) int { return b.lease.changedAt.Compare(a.lease.changedAt) })
	for batch := range slices.Chunk(expired, nodesInBatch) {
		if err := w.handleExpired(ctx, batch); err != nil {
			return err
		}
	}
	for batch := range slices.Chunk(old, nodesInBatch) {
		w.sweep(ctx, batch)
	}
	return ctx.Err()
}

// handleExpired scans the nodes of expired leases, and patches their pods.
func (w *Watcher) handleExpired(ctx context.Context, batch []*node) error {
	parallel(batch, nodesAtOnce, func(n *node) { n.scan(ctx, w) })
	var failed []error
	var jobs []*job
	for _, n := range batch {
		switch {
		case apierrors.IsNotFound(n.err):
			delete(w.leases, n.name)
		case n.err != nil:
			failed = append(failed, n.err)
		case !n.lease.renewed.Equal(&n.now.Spec.RenewTime): // the watch is late
			w.saw(n.now)
		default:
			jobs = append(jobs, w.lost(n)...)
		}
	}
	w.mark(ctx, jobs)
	return errors.Join(failed...)
}

// scan reads the lease again, in case the watch is late. If it has not changed, scan lists the pods of the node.
func (n *node) scan(ctx context.Context, w *Watcher) {
	if n.now, n.err = w.cfg.Cluster.Lease(ctx, w.cfg.Namespace, n.name); n.err != nil || !n.lease.renewed.Equal(&n.now.Spec.RenewTime) {
		return
	}
	n.pods, n.err = w.cfg.Cluster.PodsOf(ctx, n.now.Spec.HolderIdentity)
}

// lost records that the agent of a node is lost, and returns the patches of its pods.
func (w *Watcher) lost(n *node) (jobs []*job) {
	holder, l := n.now.Spec.HolderIdentity, n.lease
	if !l.lost {
		l.lost, l.check = true, time.Now().Add(nodeGoneAfter)
		w.cfg.Logger.Warn("the agent of a node is lost", "node", holder, "pods", len(n.pods), "after", l.duration)
	}
	l.retry = time.Time{}
	for i := range n.pods {
		if mustTurnUnready(&n.pods[i]) {
			jobs = append(jobs, &job{node: holder, lease: l, pod: &n.pods[i]})
		}
	}
	return jobs
}

// job is a pod to be made unready.
type job struct {
	node  string
	lease *lease
	pod   *v1.Pod
	done  bool // patched, or a retry would not help
}

// namespace has the patches of one namespace. If they fail or hang, they take at most patchesPerNamespace slots, so
// that other namespaces continue.
type namespace struct {
	name string
	jobs []*job

	mu     sync.Mutex
	failed int
}

// mark makes pods unready. Failed patches are retried later. After several failures, a namespace waits.
func (w *Watcher) mark(ctx context.Context, jobs []*job) {
	var all []*namespace
	byName := make(map[string]*namespace)
	for _, j := range jobs {
		ns := byName[j.pod.Namespace]
		if ns == nil {
			ns = &namespace{name: j.pod.Namespace}
			byName[ns.name] = ns
			all = append(all, ns)
		}
		ns.jobs = append(ns.jobs, j)
	}
	slots, ticks := make(chan struct{}, patchesAtOnce), newPacer(betweenPatches)
	var running sync.WaitGroup
	now := time.Now()
	for _, ns := range all {
		if now.Before(w.failing[ns.name]) {
			continue
		}
		delete(w.failing, ns.name)
		running.Go(func() {
			parallel(ns.jobs, patchesPerNamespace, func(j *job) {
				if !ns.continues() {
					return
				}
				slots <- struct{}{}
				defer func() { <-slots }()
				ticks.wait(ctx)
				w.patch(ctx, ns, j)
			})
		})
	}
	running.Wait()
	again := time.Now().Add(retryAfter)
	for _, ns := range all {
		if !ns.continues() {
			w.failing[ns.name] = again
		}
	}
	for _, j := range jobs {
		if !j.done {
			j.lease.retry = again
		}
	}
}

// continues reports whether further patches of the namespace are tried.
func (n *namespace) continues() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failed < mostFailures
}

// patch makes a pod unready.
func (w *Watcher) patch(ctx context.Context, ns *namespace, j *job) {
	if ctx.Err() != nil {
		return
	}
	log := w.cfg.Logger.With("node", j.node, "namespace", j.pod.Namespace, "pod", j.pod.Name)
	j.done = true
	if w.cfg.DryRun {
		log.Info("dry run: a pod would be made unready")
		return
	}
	err := w.cfg.Cluster.PatchConditions(ctx, api.Pod{Namespace: j.pod.Namespace, Name: j.pod.Name, UID: j.pod.UID}, []v1.PodCondition{{
		Type: conditions.Ready, Status: v1.ConditionFalse, Reason: conditions.AgentLost,
		Message: fmt.Sprintf("the agent of node %s has not renewed its lease for %s", j.node, j.lease.duration), LastTransitionTime: metav1.Now(),
	}})
	switch {
	case err == nil:
		log.Info("a pod was made unready")
	case errors.Is(err, api.ErrGone):
	case errors.Is(err, api.ErrDenied):
		log.Warn("a pod cannot be made unready", "error", err)
	default:
		j.done = false
		ns.mu.Lock()
		ns.failed++
		ns.mu.Unlock()
		log.Warn("a pod cannot be made unready; it is tried again", "error", err)
	}
}

// sweep deletes the leases of nodes that do not exist.
func (w *Watcher) sweep(ctx context.Context, batch []*node) {
	parallel(batch, nodesAtOnce, func(n *node) {
		if n.now, n.err = w.cfg.Cluster.Lease(ctx, w.cfg.Namespace, n.name); n.err != nil || !n.lease.renewed.Equal(&n.now.Spec.RenewTime) {
			return
		}
		if _, n.err = w.cfg.Cluster.NodeUID(ctx, n.now.Spec.HolderIdentity); apierrors.IsNotFound(n.err) && !w.cfg.DryRun {
			n.err = w.cfg.Cluster.DeleteLease(ctx, w.cfg.Namespace, n.now)
			n.gone = n.err == nil
		}
	})
	for _, n := range batch {
		n.lease.check = time.Now().Add(nodeCheckInterval)
		if n.gone {
			delete(w.leases, n.name)
			w.cfg.Logger.Info("the lease of a node that does not exist was deleted", "node", n.now.Spec.HolderIdentity)
		} else if n.err != nil && !apierrors.IsNotFound(n.err) {
			w.cfg.Logger.Warn("the lease of a lost agent cannot be checked or deleted", "lease", n.name, "error", n.err)
		}
	}
}

// parallel calls f for each element, with at most atOnce calls at the same time, and waits for all.
func parallel[T any](all []T, atOnce int, f func(T)) {
	var running sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, one := range all {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			f(one)
		})
	}
	running.Wait()
}

// pacer spaces calls by an interval.
type pacer struct {
	every time.Duration
	mu    sync.Mutex
	next  time.Time
}

func newPacer(every time.Duration) *pacer { return &pacer{every: every} }

// wait blocks until the next call may be made, or ctx ends.
func (p *pacer) wait(ctx context.Context) {
	p.mu.Lock()
	now := time.Now()
	at := p.next
	if at.Before(now) {
		at = now
	}
	p.next = at.Add(p.every)
	p.mu.Unlock()
	if at.After(now) {
		pace.Wait(ctx, nil, at.Sub(now))
	}
}
