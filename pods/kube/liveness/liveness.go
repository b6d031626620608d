package liveness

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/probe"
)

// Mode is the action that follows when a liveness or startup probe of a pod fails.
type Mode string

// The modes.
const (
	Observe Mode = "observe" // a condition and an event
	Sidecar Mode = "sidecar" // nothing: prober sidecar in the pod answers the kubelet's own probe
	Restart Mode = "restart" // the container is stopped, and the kubelet restarts it
	Evict   Mode = "evict"   // the pod is evicted
)

// OnFailurePolicy is what Restart does with a container whose restart policy is OnFailure: after an exit
// with code 0, the kubelet considers it completed, and never starts it again.
type OnFailurePolicy string

// The policies.
const (
	Refuse OnFailurePolicy = "refuse" // the container is left alone
	// Kill kills such a container without a preStop hook and a grace period. It exits with code 137, and the
	// kubelet restarts it. A container that is not restarted after that code either is stopped as the kubelet
	// stops it.
	Kill OnFailurePolicy = "kill"
)

// Bucket is the rate of a token bucket: at most Burst at once, and one more every Every.
type Bucket = pace.Rate

// Config is what an [Actor] needs. Zero values of limits mean defaults. The functions are called
// concurrently. Current, Party, Failing, Owner and Stalled must not block. Current, Party and Failing are required.
type Config struct {
	Stop    func(ctx context.Context, containerID string, grace time.Duration) error                           // of the runtime; nil: Restart is not possible
	Exec    func(ctx context.Context, containerID string, cmd []string, timeout time.Duration) ([]byte, error) // for preStop
	Evict   func(ctx context.Context, pod api.Pod, graceSeconds *int64) error                                  // nil: Evict is not possible
	Current func(uid types.UID) *v1.Pod                                                                        // returns the pod with its newest status; nil if it is gone
	Failing func(uid types.UID, container string, kind probe.Kind) bool                                        // reports whether the running container still fails

	// Party returns the workload of a pod, and what depends on its probes; false for an unknown pod, whose probes
	// do not count.
	Party func(uid types.UID) (Party, bool)

	// Asked returns the present mode of the pod, and whether the probe is paused. No action is taken while it is
	// paused. nil: the mode of the failure applies. Asked must not block.
	Asked func(uid types.UID, container string, kind probe.Kind) (mode Mode, paused bool)

	// Owner returns the pod of a container according to the runtime: whoever may write the status of a pod must not
	// choose which container is stopped. nil: the status is trusted.
	Owner func(containerID string) (uid types.UID, ok bool)

	Claim Claim // nil: no coordination with other nodes

	Recorder manager.Recorder // nil: no events
	Logger   *slog.Logger     // nil: slog's default
	DryRun   bool

	OnFailure OnFailurePolicy // "": Refuse
	// Budgets of actions. Workload defaults to a burst of 3 and one more every 10 min, Node to a burst of 10 and one
	// more every 1 min. Namespaces that wait for the budget of the node get its tokens in turn.
	Workload, Node Bucket
	Backoff        time.Duration // before the second consecutive action on a container: 10 s; doubles up to 5 min
	Breaker        Breaker
	Stalled        func() time.Duration // returns how long a probe has been due while no probe was run; nil: not known
	PressureDir    string               // directory of the kernel's pressure files; "": /proc/pressure
}

// Breaker has the limits above which an agent distrusts the probes of a workload, a namespace or the node. Namespaces
// have equal weight in the node, workloads in their namespace, and pods in their workload. The breaker opens only if
// the limits are exceeded even without any single one of these parts.
type Breaker struct {
	Share  float64       // share of probes that began to fail within Window, or of liveness and startup probes that fail: 0.5
	Least  int           // minimum number of these failures: 5
	Window time.Duration // 30 s
	Lag    time.Duration // delay of the schedule: 2 s
	// Pressure has the limits for "cpu", "memory" and "io", in percent of the last 10 s in which some task waited. The
	// default is memory 40 and io 60. Missing resources are not checked.
	Pressure map[string]float64
}

// Failure is a decided failure of a liveness or startup probe.
type Failure struct {
	Pod         *v1.Pod // with its status at that time; read-only
	Container   string
	ContainerID string
	Kind        probe.Kind
	Mode        Mode
	Grace       *int64 // grace period of the probe, in seconds; nil: the pod's
	// Period is the period of the probe. An action is delayed by it, bounded to 1 to 10 s: meanwhile, other probes
	// may fail for the same reason, which opens the breaker.
	Period time.Duration
	Text   string // output or error of the attempt
}

// Reasons of [Counts].Withheld.
const (
	WithheldBudget      = "budget"
	WithheldBreaker     = "breaker"
	WithheldBackoff     = "backoff"
	WithheldOnFailure   = "on-failure"
	WithheldDryRun      = "dry-run"
	WithheldGone        = "gone"        // the pod or the container that has failed
	WithheldBlocked     = "blocked"     // by a PodDisruptionBudget
	WithheldDisruption  = "disruption"  // another pod of the workload is disrupted, on any node
	WithheldUnavailable = "unavailable" // there is no container runtime or it does not know the container, or no way to evict
)

// Counts are the counts of an [Actor] since its start.
type Counts struct {
	Done     map[Mode]uint64 // actions
	Failed   map[Mode]uint64
	Withheld map[string]uint64 // failures, by each reason that withheld their action
}

// Actor restarts containers or evicts pods after failures. It is safe for concurrent use. Its methods do not block,
// except for Run.
type Actor struct {
	cfg  Config
	log  *slog.Logger
	open atomic.Pointer[Doubts]
	wake chan struct{} // capacity 1: the inbox is not empty

	mu     sync.Mutex
	inbox  inbox
	counts Counts
}

// inbox has the changes and failures that Run has not read yet.
type inbox struct {
	changes  []change
	failures []Failure
}

// maxInbox limits the changes, and the failures, that wait for Run. Further ones are dropped.
const maxInbox = 1 << 16

var _ states.Reader = (*Actor)(nil)

// New returns an actor.
func New(cfg Config) *Actor {
	cfg.OnFailure = cmp.Or(cfg.OnFailure, Refuse)
	cfg.Workload = Bucket{Burst: cmp.Or(cfg.Workload.Burst, 3), Every: cmp.Or(cfg.Workload.Every, 10*time.Minute)}
	cfg.Node = Bucket{Burst: cmp.Or(cfg.Node.Burst, 10), Every: cmp.Or(cfg.Node.Every, time.Minute)}
	cfg.Backoff = cmp.Or(cfg.Backoff, 10*time.Second)
	cfg.PressureDir = cmp.Or(cfg.PressureDir, "/proc/pressure")
	b := &cfg.Breaker
	b.Share, b.Least = cmp.Or(b.Share, 0.5), cmp.Or(b.Least, 5)
	b.Window, b.Lag = cmp.Or(b.Window, 30*time.Second), cmp.Or(b.Lag, 2*time.Second)
	if b.Pressure == nil {
		b.Pressure = map[string]float64{"memory": 40, "io": 60}
	}
	a := &Actor{cfg: cfg, log: cfg.Logger, wake: make(chan struct{}, 1)}
	if a.log == nil {
		a.log = slog.Default()
	}
	a.open.Store(new(Doubts{}))
	a.counts = Counts{Done: map[Mode]uint64{}, Failed: map[Mode]uint64{}, Withheld: map[string]uint64{}}
	return a
}

// Changed implements [states.Reader]. The breaker counts the changes.
func (a *Actor) Changed(c *states.Change) {
	if c.From == c.To && !c.Removed {
		return // only the cause has changed
	}
	a.mu.Lock()
	if len(a.inbox.changes) < maxInbox {
		a.inbox.changes = append(a.inbox.changes, changeOf(c))
	}
	a.mu.Unlock()
	a.signal()
}

// Failed acts on a failure as soon as the guards allow it. It retries until the container or the pod is gone
// or replaced, or the probe recovers. It gives up if the action is impossible: the agent has no runtime or
// may not evict, the API server denies the eviction, or [Refuse] applies. In a dry run it records one event.
func (a *Actor) Failed(f Failure) {
	if f.Pod == nil || f.ContainerID == "" || f.Mode != Restart && f.Mode != Evict {
		return
	}
	a.mu.Lock()
	if len(a.inbox.failures) < maxInbox {
		a.inbox.failures = append(a.inbox.failures, f)
	}
	a.mu.Unlock()
	a.signal()
}

func (a *Actor) signal() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Doubts returns the scopes whose probes are not trusted at present, or in which no action is taken.
func (a *Actor) Doubts() Doubts { return *a.open.Load() }

// Counts returns the counts.
func (a *Actor) Counts() Counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return Counts{maps.Clone(a.counts.Done), maps.Clone(a.counts.Failed), maps.Clone(a.counts.Withheld)}
}

func (a *Actor) count(f func(*Counts)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(&a.counts)
}
