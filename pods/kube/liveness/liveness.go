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

// Mode is what happens when a liveness or startup probe of a pod fails.
type Mode string

// The modes.
const (
	Observe Mode = "observe" // a condition and an event
	Sidecar Mode = "sidecar" // nothing: prober sidecar in the pod answers the kubelet's own probe
	Restart Mode = "restart" // the container is stopped, and the kubelet restarts it
	Evict   Mode = "evict"   // the pod is evicted
)

// OnFailurePolicy is what Restart does with a container that its pod restarts only after a
// failure: the kubelet takes an exit with code 0 as completion, and never starts it again.
type OnFailurePolicy string

// The policies.
const (
	Refuse OnFailurePolicy = "refuse" // the container is left alone
	// Kill kills a container that is restarted after a failure without a preStop hook and a grace
	// period: exit code 137. One that is never restarted ends as the kubelet would end it.
	Kill OnFailurePolicy = "kill"
)

// Bucket is the rate of a token bucket: at most Burst at once, and one more every Every.
type Bucket = pace.Rate

// Config is what an [Actor] needs. Zero values of limits mean defaults. The functions are called
// concurrently; Current, Party, Failing, Owner and Stalled must return from memory. Current, Party and Failing are
// required.
type Config struct {
	Stop    func(ctx context.Context, containerID string, grace time.Duration) error                           // of the runtime; nil: Restart is not possible
	Exec    func(ctx context.Context, containerID string, cmd []string, timeout time.Duration) ([]byte, error) // for preStop
	Evict   func(ctx context.Context, pod api.Pod, graceSeconds *int64) error                                  // nil: Evict is not possible
	Current func(uid types.UID) *v1.Pod                                                                        // the pod with its newest status; nil if it is gone
	Failing func(uid types.UID, container string, kind probe.Kind) bool                                        // the decided result is still a failure of the present container

	// Party returns whose a pod is; false for a pod that is not known, whose probes do not count.
	Party func(uid types.UID) (Party, bool)

	// Asked returns what the pod asks for now, and whether the probe is paused: nothing is done meanwhile.
	// nil: the mode is that of the failure. It must return from memory.
	Asked func(uid types.UID, container string, kind probe.Kind) (mode Mode, paused bool)

	// Owner returns the pod of a container as the runtime has it: who may write the status of a pod
	// must not choose what is stopped. nil: the status is believed.
	Owner func(containerID string) (uid types.UID, ok bool)

	Claim Claim // nil: other nodes do not matter

	Recorder manager.Recorder // nil: no events
	Logger   *slog.Logger     // nil: slog's default
	DryRun   bool

	OnFailure OnFailurePolicy // "": Refuse
	// Budgets of actions: 3, one more in 10 min; 10, one more in 1 min. Namespaces whose actions wait for the budget
	// of the node get its tokens in turn.
	Workload, Node Bucket
	Backoff        time.Duration // before the second action on a container in a row: 10 s; doubles up to 5 min
	Breaker        Breaker
	Stalled        func() time.Duration // how long a probe has been due while none was run; nil: not known
	PressureDir    string               // of the kernel's pressure files; "": /proc/pressure
}

// Breaker are the limits above which an agent distrusts its probes: of a workload, of a namespace, or of the node.
// Namespaces count the same in the node, workloads in their namespace, and pods in their workload. The limits must be
// exceeded without any one of them.
type Breaker struct {
	Share  float64       // of the probes that failed within Window: 0.5
	Least  int           // failures below which Share does not count: 5
	Window time.Duration // 30 s
	Lag    time.Duration // of the schedule: 2 s
	// Pressure is for "cpu", "memory" and "io" the percent of the last 10 s in which some task
	// waited: none, 40 and 60. A resource that is not in it is not checked.
	Pressure map[string]float64
}

// Failure is a decided failure of a liveness or startup probe.
type Failure struct {
	Pod         *v1.Pod // with its status at that time; read-only
	Container   string
	ContainerID string
	Kind        probe.Kind
	Mode        Mode
	Grace       *int64 // of the probe, in seconds; nil: that of the pod
	// Period is that of the probe. An action waits so long, for 1 to 10 s: what makes the probe fail may make
	// others of the same period fail, which opens the breaker.
	Period time.Duration
	Text   string
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
	WithheldDisruption  = "disruption"  // another pod of the workload is disrupted, on whatever node
	WithheldUnavailable = "unavailable" // there is no container runtime or it does not know the container, or no way to evict
)

// Counts are the counts of an [Actor] since its start.
type Counts struct {
	Done     map[Mode]uint64 // actions
	Failed   map[Mode]uint64
	Withheld map[string]uint64 // failures, by each reason that withheld their action
}

// Actor acts on failures. It is safe for concurrent use, and blocks no caller.
type Actor struct {
	cfg  Config
	log  *slog.Logger
	open atomic.Pointer[Doubts]
	wake chan struct{} // something is in the inbox

	mu     sync.Mutex
	inbox  inbox
	counts Counts
}

// inbox is what the goroutine of Run has not read yet.
type inbox struct {
	changes  []change
	failures []Failure
}

// maxInbox is the most changes, and the most failures, that wait for Run. Further ones are dropped.
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

// Changed counts a change of the state of a probe, for the breaker. It implements states.Reader.
func (a *Actor) Changed(c *states.Change) {
	if c.From == c.To && !c.Removed {
		return // another cause
	}
	a.mu.Lock()
	if len(a.inbox.changes) < maxInbox {
		a.inbox.changes = append(a.inbox.changes, changeOf(c))
	}
	a.mu.Unlock()
	a.signal()
}

// Failed begins to act on a failure, as soon as the guards allow it. It goes on until the container
// or the pod is another one or gone, or the probe does not fail any more.
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

// Doubts returns whose probes are not trusted at present, and where nothing is restarted or evicted.
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
