// Package disruption limits restarts and evictions to one pod of a workload at a time, in the whole cluster. The
// agents of all nodes coordinate through a lease for the workload. Read [Claims] first; recovered.go decides when
// the next pod may follow.
package disruption

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/pods/kube/api"
)

// Cluster is the API server: [api.Client].
type Cluster interface {
	Lease(ctx context.Context, namespace, name string) (*api.Lease, error)
	CreateLease(ctx context.Context, namespace string, l *api.Lease) error
	UpdateLease(ctx context.Context, namespace string, l *api.Lease) error
	DeleteLease(ctx context.Context, namespace string, l *api.Lease) error
	PodsLike(ctx context.Context, namespace string, labels map[string]string) ([]v1.Pod, error)
}

var _ Cluster = (*api.Client)(nil)

const (
	// Longest is the maximum time that a workload waits for a disrupted pod to become ready.
	Longest = 10 * time.Minute

	claimTimeout = 10 * time.Second // of all requests before an action
	pollEvery    = 5 * time.Second
)

// Names of the annotations of a lease, for people and for the agent that holds it.
const (
	AnnotationWorkload = "prober.dev/workload" // such as ReplicaSet shop/api-6f7
	AnnotationPod      = "prober.dev/pod"      // the disrupted pod
	AnnotationPodUID   = "prober.dev/pod-uid"
)

// Config is what [Claims] need.
type Config struct {
	Cluster   Cluster
	Namespace string // of the leases
	Node      string // holder of the leases
	Logger    *slog.Logger
}

// Claims holds the workloads with a pod that this agent disrupts. A claim is a lease with the node as its holder. It
// ends when the pod or its replacement is ready again, and after [Longest] at the latest. The lease of an agent that
// has ended expires [Longest] after another agent has first seen it: clocks of nodes are not compared. Claims is
// safe for concurrent use.
type Claims struct {
	cfg Config

	mu   sync.Mutex
	held map[string]*claim   // by name of the lease
	seen map[string]sighting // leases of other agents
}

// claim is a lease held by this agent.
type claim struct {
	workload
	pod    types.UID
	before map[types.UID]string // container IDs of the workload's pods before the action
	since  time.Time
	acted  bool // the action has ended
	ready  bool // at the last poll

	earlier *claim // claim for an earlier action on the same pod; restored if nothing is done
}

// workload is the controller of a pod.
type workload struct {
	lease     string // its name
	namespace string
	owner     types.UID
	labels    map[string]string // select its pods, and perhaps others
}

// sighting records when a lease was first seen with a renew time.
type sighting struct {
	renewed metav1.MicroTime
	at      time.Time
}

// New returns Claims that hold nothing.
func New(cfg Config) *Claims {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Claims{cfg: cfg, held: make(map[string]*claim), seen: make(map[string]sighting)}
}

// Claim claims the workload of a pod. The caller must call done after the action, with acted false if nothing was
// done. Claim returns an error if another pod of the workload is disrupted, or if the lease cannot be read or
// written. A pod without a controller needs no lease.
func (c *Claims) Claim(ctx context.Context, pod *v1.Pod) (done func(acted bool), err error) {
	w, name := workloadOf(pod)
	if w == nil {
		return func(bool) {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	if err := c.begin(w, pod.UID); err != nil {
		return nil, err
	}
	before, err := c.podsOf(ctx, w)
	if err == nil {
		err = c.acquire(ctx, w, pod, name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.held[w.lease]
	if err != nil {
		c.dropLocked(one)
		return nil, err
	}
	one.before = containersOf(before)
	return func(acted bool) { c.done(context.WithoutCancel(ctx), one, acted) }, nil
}

// begin reserves the workload within this process.
func (c *Claims) begin(w *workload, pod types.UID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	other := c.held[w.lease]
	if other != nil && (other.pod != pod || !other.acted) {
		return fmt.Errorf("another pod of its workload was restarted or evicted on this node, and is not ready again")
	}
	c.held[w.lease] = &claim{workload: *w, pod: pod, since: time.Now(), earlier: other}
	return nil
}

// dropLocked forgets a claim, and restores the earlier claim of its pod, if any.
func (c *Claims) dropLocked(one *claim) {
	if one.earlier != nil {
		c.held[one.lease] = one.earlier
	} else {
		delete(c.held, one.lease)
	}
}

// acquire gets the lease of a workload.
func (c *Claims) acquire(ctx context.Context, w *workload, pod *v1.Pod, name string) error {
	lease := &api.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: w.lease, Annotations: map[string]string{
			AnnotationWorkload: name, AnnotationPod: pod.Namespace + "/" + pod.Name, AnnotationPodUID: string(pod.UID),
		}},
		Spec: api.LeaseSpec{HolderIdentity: c.cfg.Node, LeaseDurationSeconds: int32(Longest / time.Second), RenewTime: metav1.NowMicro()},
	}
	old, err := c.cfg.Cluster.Lease(ctx, c.cfg.Namespace, w.lease)
	switch {
	case apierrors.IsNotFound(err):
		err = c.cfg.Cluster.CreateLease(ctx, c.cfg.Namespace, lease)
	case err == nil && !c.mayTake(old, pod.UID):
		return fmt.Errorf("the pod %s of its workload was restarted or evicted on node %s, and is not ready again",
			old.Annotations[AnnotationPod], old.Spec.HolderIdentity)
	case err == nil:
		lease.ResourceVersion, lease.UID = old.ResourceVersion, old.UID
		err = c.cfg.Cluster.UpdateLease(ctx, c.cfg.Namespace, lease)
	}
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
		return fmt.Errorf("another pod of its workload is restarted or evicted at this moment")
	case err != nil:
		return fmt.Errorf("no pod is restarted or evicted without the lease %s/%s of its workload: %w", c.cfg.Namespace, w.lease, err)
	}
	return nil
}

// mayTake reports whether the lease may be taken: it belongs to this node and pod, or it has not changed for Longest.
func (c *Claims) mayTake(l *api.Lease, pod types.UID) bool {
	if l.Spec.HolderIdentity == c.cfg.Node && l.Annotations[AnnotationPodUID] == string(pod) {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	s, ok := c.seen[l.Name]
	if !ok || !s.renewed.Equal(&l.Spec.RenewTime) {
		s = sighting{l.Spec.RenewTime, now}
		c.seen[l.Name] = s
	}
	return now.Sub(s.at) >= Longest
}

// done records the end of an action, and releases the claim if nothing was done.
func (c *Claims) done(ctx context.Context, one *claim, acted bool) {
	c.mu.Lock()
	one.acted = true
	keep := acted || one.earlier != nil
	switch {
	case acted:
		one.earlier = nil
	case keep:
		c.dropLocked(one)
	}
	c.mu.Unlock()
	if !keep {
		ctx, cancel := context.WithTimeout(ctx, claimTimeout)
		defer cancel()
		c.release(ctx, one)
	}
}

// release deletes the lease of a claim, if this node still holds it. If that fails, the next poll tries again.
func (c *Claims) release(ctx context.Context, one *claim) {
	c.mu.Lock()
	current := c.held[one.lease] == one // otherwise the pod was claimed again
	c.mu.Unlock()
	if !current {
		return
	}
	lease, err := c.cfg.Cluster.Lease(ctx, c.cfg.Namespace, one.lease)
	if err == nil && lease.Spec.HolderIdentity == c.cfg.Node && lease.Annotations[AnnotationPodUID] == string(one.pod) {
		err = c.cfg.Cluster.DeleteLease(ctx, c.cfg.Namespace, lease)
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && time.Since(one.since) < 2*Longest {
		c.cfg.Logger.Warn("the lease of a workload cannot be deleted", "lease", one.lease, "error", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[one.lease] == one {
		delete(c.held, one.lease)
	}
}

// Run polls and ends claims until ctx ends. The leases that remain expire.
func (c *Claims) Run(ctx context.Context) {
	ticks := time.NewTicker(pollEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		for _, one := range c.toPoll() {
			c.poll(ctx, one)
		}
	}
}

// toPoll returns the claims whose actions have ended. It also forgets old sightings.
func (c *Claims) toPoll() []*claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.seen, func(_ string, s sighting) bool { return time.Since(s.at) > 3*Longest })
	all := slices.Collect(maps.Values(c.held))
	return slices.DeleteFunc(all, func(one *claim) bool { return !one.acted })
}

// poll ends a claim whose workload has recovered at two consecutive polls, or that is held for Longest. One poll is
// not enough: a readiness gate may still have the status of the ended container.
func (c *Claims) poll(ctx context.Context, one *claim) {
	if time.Since(one.since) >= Longest {
		c.cfg.Logger.Warn("a pod that was restarted or evicted is not ready again in time; others of its workload may follow", "lease", one.lease, "after", Longest)
		c.release(ctx, one)
		return
	}
	pods, err := c.podsOf(ctx, &one.workload)
	if err != nil {
		return
	}
	before := one.ready
	if one.ready = recovered(one, pods); one.ready && before {
		c.release(ctx, one)
	}
}

// podsOf returns the pods of a workload.
func (c *Claims) podsOf(ctx context.Context, w *workload) ([]v1.Pod, error) {
	all, err := c.cfg.Cluster.PodsLike(ctx, w.namespace, w.labels)
	if err != nil {
		return nil, fmt.Errorf("the pods of its workload cannot be listed: %w", err)
	}
	return slices.DeleteFunc(all, func(p v1.Pod) bool {
		owner := metav1.GetControllerOfNoCopy(&p)
		return owner == nil || owner.UID != w.owner
	}), nil
}

// ownLabels are labels whose values differ between the pods of a workload, or change with the pod template.
var ownLabels = []string{
	"apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index", "controller-revision-hash",
	"pod-template-generation", "statefulset.kubernetes.io/pod-name",
}

// workloadOf returns the controller of a pod, and its name for people; nil if the pod has none. The lease name is
// derived from the namespace too: whoever may create pods in one namespace may set any UID as their controller.
func workloadOf(pod *v1.Pod) (w *workload, name string) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.UID == "" {
		return nil, ""
	}
	w = &workload{namespace: pod.Namespace, owner: owner.UID, labels: maps.Clone(pod.Labels)}
	maps.DeleteFunc(w.labels, func(label, _ string) bool { return slices.Contains(ownLabels, label) })
	sum := sha256.Sum256([]byte(pod.Namespace + "/" + string(owner.UID)))
	w.lease = fmt.Sprintf("disruption-%x", sum[:16])
	return w, owner.Kind + " " + pod.Namespace + "/" + owner.Name
}
