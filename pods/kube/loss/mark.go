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

// What is asked of the API server at a time.
const (
	nodesAtOnce     = 8
	nodesInBatch    = 64 // whose pods are patched before further nodes are scanned
	patchesAtOnce   = 16
	patchesOfOne    = 4 // namespace
	betweenPatches  = 10 * time.Millisecond
	mostFailures    = 3                // of patches of a namespace, until it waits
	retryAfter      = 30 * time.Second // patches of pods and namespaces that have failed
	nodeGoneAfter   = 10 * time.Minute // since its agent was lost
	nodeExistsAgain = time.Hour        // until it is asked again whether the node of a lost agent exists
)

// node is a node whose lease is due.
type node struct {
	name  string // of the lease
	lease *lease

	// What the API server says.
	now  *api.Lease
	pods []v1.Pod
	gone bool // its lease was deleted
	err  error
}

// expire acts on the leases that are due: those that have expired, and those of lost agents that have pods to
// patch again, or may have no node any more. Agents that were lost last come first. The error is that of an
// API server that cannot be reached.
func (w *Watcher) expire(ctx context.Context) error {
	now := time.Now()
	var expired, old []*node
	for name, l := range w.leases {
		switch {
		case now.Before(l.due()):
		case l.lost && (l.again.IsZero() || now.Before(l.again)):
			old = append(old, &node{name: name, lease: l})
		default:
			expired = append(expired, &node{name: name, lease: l})
		}
	}
	slices.SortFunc(expired, func(a, b *node) int { return b.lease.at.Compare(a.lease.at) })
	for batch := range slices.Chunk(expired, nodesInBatch) {
		if err := w.take(ctx, batch); err != nil {
			return err
		}
	}
	for batch := range slices.Chunk(old, nodesInBatch) {
		w.sweep(ctx, batch)
	}
	return ctx.Err()
}

// take scans nodes, and patches their pods.
func (w *Watcher) take(ctx context.Context, batch []*node) error {
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

// scan asks for the lease again, in case that the watch is late, and lists the pods of the node.
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
	l.again = time.Time{}
	for i := range n.pods {
		if asks(&n.pods[i]) {
			jobs = append(jobs, &job{node: holder, lease: l, pod: &n.pods[i]})
		}
	}
	return jobs
}

// job is a pod that is made unready.
type job struct {
	node  string
	lease *lease
	pod   *v1.Pod
	done  bool // or nothing mends it
}

// namespace are the patches of one namespace. Those that fail or hang delay no other namespace for longer than
// they hold their share of patchesAtOnce.
type namespace struct {
	name string
	jobs []*job

	mu     sync.Mutex
	failed int
}

// mark makes pods unready. Those that fail are tried again later, and so is a namespace of which several fail.
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
			parallel(ns.jobs, patchesOfOne, func(j *job) {
				if !ns.goesOn() {
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
		if !ns.goesOn() {
			w.failing[ns.name] = again
		}
	}
	for _, j := range jobs {
		if !j.done {
			j.lease.again = again
		}
	}
}

// goesOn reports whether further patches of the namespace are tried.
func (n *namespace) goesOn() bool {
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

// sweep deletes the leases of nodes that do not exist any more.
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
		n.lease.check = time.Now().Add(nodeExistsAgain)
		if n.gone {
			delete(w.leases, n.name)
			w.cfg.Logger.Info("the lease of a node that does not exist was deleted", "node", n.now.Spec.HolderIdentity)
		} else if n.err != nil && !apierrors.IsNotFound(n.err) {
			w.cfg.Logger.Warn("the lease of a lost agent cannot be checked or deleted", "lease", n.name, "error", n.err)
		}
	}
}

// parallel calls f for all, some at once.
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

// pacer spreads calls.
type pacer struct {
	every time.Duration
	mu    sync.Mutex
	next  time.Time
}

func newPacer(every time.Duration) *pacer { return &pacer{every: every} }

// wait returns when the next call may be made, or ctx has ended.
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
