// Package controller compiles the policies of a cluster into one object for each node, and sums up the status of each
// policy. Read [Controller] first. state.go knows pods, policies and nodes; node.go computes what a node needs, and
// status.go what a policy shows. leader.go decides which replica writes, and write.go writes.
package controller

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/policy"
)

// Cluster is the API server: [api.Client].
type Cluster interface {
	AllPods() cache.ListerWatcher
	Policies() cache.ListerWatcher
	AllNodeProbes() cache.ListerWatcher

	CreateNodeProbes(ctx context.Context, n *policy.NodeProbes) (resourceVersion string, err error)
	UpdateNodeProbes(ctx context.Context, n *policy.NodeProbes) (resourceVersion string, err error)
	DeleteNodeProbes(ctx context.Context, n *policy.NodeProbes) error
	PatchPolicyStatus(ctx context.Context, p *policy.ProbePolicy) (resourceVersion string, err error)

	Lease(ctx context.Context, namespace, name string) (*api.Lease, error)
	CreateLease(ctx context.Context, namespace string, l *api.Lease) error
	UpdateLease(ctx context.Context, namespace string, l *api.Lease) error
}

var _ Cluster = (*api.Client)(nil)

// Config is what a [Controller] needs.
type Config struct {
	Cluster   Cluster
	Namespace string // of the lease
	Identity  string // of this process; no other process may ever have the same
	QPS       int    // most writes a second, except for the lease; 0: [DefaultQPS]
	Logger    *slog.Logger
	DryRun    bool // log what would be written, without the lease
}

// DefaultQPS is the default of [Config.QPS].
const DefaultQPS = 20

// Controller writes a [policy.NodeProbes] for each node with a pod that has not ended and that a policy selects. It
// deletes all others. A policy with an error is written too: as in an annotation, a probe that runs goes on unchanged
// while its text is invalid, and the other probes follow the policy. It writes the status of all policies.
//
// It is level-triggered: an event marks nodes and policies, which are then computed from the newest objects. The
// watches alone say what the API server has, so a new process continues where another has stopped.
//
// Of several replicas one writes, the holder of a lease. No replica writes before it has listed pods, policies and
// NodeProbes, and while one of them cannot be followed.
type Controller struct {
	cfg    Config
	log    *slog.Logger
	rate   pace.Rate
	wake   chan struct{} // holds a token after a change
	state  *state
	leader *leader

	// Owned by work.
	tokens     pace.Bucket
	lastPolicy bool // the last write was for a policy
	slots      chan struct{}
	writes     sync.WaitGroup

	mu       sync.Mutex
	reported time.Time // when a failed write was last logged
}

// New returns a controller.
func New(cfg Config) *Controller {
	c := &Controller{cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), wake: make(chan struct{}, 1), slots: make(chan struct{}, writesAtOnce)}
	c.lastPolicy = true // so nodes are the first
	c.rate = pace.Rate{Burst: 1, Every: time.Second / time.Duration(cmp.Or(cfg.QPS, DefaultQPS))}
	c.state = newState(c.signal)
	c.leader = &leader{cluster: cfg.Cluster, namespace: cfg.Namespace, identity: cfg.Identity, log: c.log, changed: c.signal}
	return c
}

// signal wakes work.
func (c *Controller) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run works until ctx ends. Then it waits for writes that have begun, and releases the lease.
func (c *Controller) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, f := range c.followers() {
		running.Go(func() { f.run(ctx) })
	}
	if !c.cfg.DryRun {
		running.Go(func() { c.leader.run(ctx) })
	}
	c.work(ctx)
	running.Wait()
	if !c.cfg.DryRun {
		c.leader.release(ctx)
	}
}
