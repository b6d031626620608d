package kube

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/conditions"
	"github.com/daeace23/prober/pods/kube/liveness"
)

// Config is what a [Source] needs. Node, Pods, Conditions, Events and Act are required.
type Config struct {
	Node       string
	Pods       cache.ListerWatcher // of the node
	Namespaces cache.ListerWatcher // nil: pods have no labels of their namespaces
	NodeProbes cache.ListerWatcher // policies for the node; nil: none
	Policy     *config.Kubernetes  // nil: [config.DefaultKubernetes]
	Conditions Conditions
	Events     Events
	// Act returns the actor for failures of liveness and startup probes. The source sets Current, Party,
	// Failing, Asked, Stalled, Recorder and Logger.
	Act     func(liveness.Config) Actor
	Runtime Runtime // nil: no access to the container runtime
	// Exec runs a command through the API server, if there is no Runtime and the policy allows it.
	Exec func(ctx context.Context, pod api.Pod, container string, cmd []string) (output []byte, exitCode int, err error)
	// RenewLease is called every [LeaseInterval] while a pod has prober.dev/on-agent-loss: unready.
	// DropLease is called when the last such pod is gone. nil: no lease.
	RenewLease, DropLease func(ctx context.Context) error
}

// Times of the lease by which the agent of a node shows that it is alive.
const (
	LeaseInterval = 10 * time.Second // between two renewals
	LeaseDuration = 40 * time.Second
)

// Conditions writes pod conditions: a [conditions.Writer]. After the end of its context, Run writes
// pending conditions for a few more seconds. Retry is called when the API server can be reached again.
type Conditions interface {
	Set(pod conditions.Pod)
	Remove(uid types.UID)
	Retry()
	Run(ctx context.Context)
	Counts() conditions.Counts
}

// Events writes events of pods: an [api.Recorder]. Event does not block. Retry is called when the API
// server can be reached again.
type Events interface {
	manager.TargetRecorder
	Retry()
	Run(ctx context.Context)
}

// Recorders record events at the API server, and in the log and the API of the agent.
type Recorders struct{ Cluster, Agent manager.Recorder }

// Event implements [manager.Recorder].
func (r Recorders) Event(object runtime.Object, eventType, reason, message string) {
	r.Cluster.Event(object, eventType, reason, message)
	r.Agent.Event(object, eventType, reason, message)
}

// Actor restarts containers or evicts pods after failures: a [liveness.Actor].
type Actor interface {
	states.Reader
	Failed(f liveness.Failure)
	Doubts() liveness.Doubts
	Run(ctx context.Context)
	Counts() liveness.Counts
}

// Runtime is the container runtime of the node: a [cri.Client].
type Runtime interface {
	Run(ctx context.Context, changed func(uid types.UID))
	Overlay(pod *v1.Pod, status *v1.PodStatus)
	Owner(containerID string) (uid types.UID, ok bool)
	RunInContainer(ctx context.Context, containerID string, cmd []string, timeout time.Duration) ([]byte, error)
	NetworkNamespace(ctx context.Context, uid types.UID) (path string, err error)
	Trouble() error
	Left() int    // commands that still run after their attempts have ended
	Close() error // waits for commands, for a bounded time
}

func (c *Config) check() error {
	if c.Node == "" || c.Pods == nil || c.Conditions == nil || c.Events == nil || c.Act == nil {
		return errors.New("kube: Config.Node, Pods, Conditions, Events and Act are required")
	}
	return nil
}

// canExec reports whether exec probes can be carried out.
func (c *Config) canExec() bool { return c.Runtime != nil || c.Exec != nil && c.Policy.APIExec }
