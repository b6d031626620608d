// Package liveness acts on liveness and startup failures of pods: it decides whether a container
// is restarted or its pod evicted, and does it. Read decide.go first.
package liveness

import (
	"context"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/states"
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
	Kill   OnFailurePolicy = "kill"   // it is killed without a grace period: exit code 137
)

// Bucket is a token bucket: at most Burst at once, and one more every Every.
type Bucket struct {
	Burst int
	Every time.Duration
}

// Config is what an [Actor] needs. Zero values of limits mean defaults.
type Config struct {
	Stop    func(ctx context.Context, containerID string, grace time.Duration) error                           // of the runtime; nil: Restart is not possible
	Exec    func(ctx context.Context, containerID string, cmd []string, timeout time.Duration) ([]byte, error) // for preStop
	Evict   func(ctx context.Context, pod api.Pod, graceSeconds *int64) error                                  // nil: Evict is not possible
	Current func(uid types.UID) *v1.Pod                                                                        // the pod with its newest status; nil if it is gone
	Failing func(uid types.UID, container string, kind probe.Kind) bool                                        // the decided result is still a failure of the present container

	Recorder manager.Recorder
	Logger   *slog.Logger
	DryRun   bool

	OnFailure      OnFailurePolicy // "": Refuse
	Workload, Node Bucket          // budgets of actions
	Backoff        time.Duration   // before the second action on a container in a row; doubles up to 5 min
	Breaker        Breaker
	Stalled        func() time.Duration // how long a probe has been due while none was run
}

// Breaker are the limits of a node, above which its agent distrusts itself.
type Breaker struct {
	Share    float64 // of the probes of the node that failed within Window
	Least    int     // failures below which Share does not count
	Window   time.Duration
	Lag      time.Duration      // of the schedule
	Pressure map[string]float64 // "cpu", "memory", "io": percent of the last 10 s in which some task waited
}

// Failure is a decided failure of a liveness or startup probe.
type Failure struct {
	Pod         *v1.Pod
	Container   string
	ContainerID string
	Kind        probe.Kind
	Mode        Mode
	Grace       *int64 // of the probe, in seconds; nil: that of the pod
	Text        string
}

// Actor acts on failures. It is safe for concurrent use, and blocks no caller.
type Actor struct{}

// New returns an actor.
func New(Config) *Actor { return &Actor{} }

// Changed counts a change of the state of a probe, for the breaker. It implements states.Reader.
func (a *Actor) Changed(c *states.Change) {}

// Failed begins to act on a failure, as soon as the guards allow it.
func (a *Actor) Failed(f Failure) {}

// Open returns why the agent distrusts its probes at present; "" if it does not.
func (a *Actor) Open() string { return "" }

// Run acts until ctx ends.
func (a *Actor) Run(ctx context.Context) { <-ctx.Done() }

// Counts are the counts of an [Actor] since its start.
type Counts struct {
	Done     map[Mode]uint64 // actions
	Failed   map[Mode]uint64
	Withheld map[string]uint64 // by reason: budget, breaker, backoff, on-failure, dry-run, gone
}

// Counts returns the counts.
func (a *Actor) Counts() Counts { return Counts{} }
