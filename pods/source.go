package pods

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/metrics/agentmetrics"
	v1 "k8s.io/api/core/v1"
)

// Source provides the desired pods of an agent, and the status of running pods. It
// may run their containers itself, as pods/local does, or follow another program that does.
//
// Config.Source of package agent creates it, with the [Host] that the agent provides. The agent
// creates a manager that gets statuses from the source. It calls Start once and Stop once. If New
// fails, or Run is never called, it calls neither. All functions are safe for concurrent use.
//
// Status, Start, Stop, Pods and Watch are required. The other fields are optional. See memory_test.go of
// package agent for a minimal source, and docs/embed/own-source-of-pods.md for its use.
// See RATIONALE.md, "Why is a source of pods a struct of functions, and no interface?"
type Source struct {
	// Status returns the present status of a pod, false for an unknown one. Every tick of every
	// probe calls it, even before Start, so it must not block. The agent does not modify the
	// status. Status may also implement [manager.StatusPublisher], which is not called at each tick, and
	// [manager.RestartSource].
	Status manager.StatusSource
	// Start begins to apply the desired pods, with m.AddPod, UpdatePod and RemovePod. It returns at
	// once. For each new status the source first calls m.UpdatePodStatus, which sets Started and Ready of
	// its containers. Only then Status may return it. When ctx ends, the source adds and changes no more
	// pods, and running pods continue until Stop. It reports each attempt with [Host].Applied or Refused.
	// The agent is ready after the first call of Applied.
	Start func(ctx context.Context, m *manager.Manager)
	// Stop stops the source, after the end of the context of Start. A source that runs containers stops
	// them with their grace periods, and kills them when ctx ends. Probes continue until Stop returns. When
	// it has returned, all goroutines and processes of the source have ended, and it does not use the
	// manager and the host.
	Stop func(ctx context.Context) error
	// Pods returns all pods with their present status, sorted by namespace and name. The agent does
	// not modify them, so they may share memory.
	Pods func() []v1.Pod
	// Watch returns all pods, and then the changes of pods and their statuses until ctx ends. A slow
	// reader blocks nothing: it gets the newest state of each pod, and misses older ones.
	Watch func(ctx context.Context) iter.Seq[Change]

	// Reload makes another attempt to apply the desired pods, reports it to the host, and returns
	// what the host returns. The agent calls it on request, and when a missing plugin or secret may
	// have appeared. It may be called at any time after Start, but not concurrently with itself.
	Reload func(ctx context.Context, r Reload) error
	// RunInContainer runs the command of an exec probe, as a method of builtin.CommandRunner.
	RunInContainer func(ctx context.Context, containerID string, cmd []string, timeout time.Duration) ([]byte, error)
	// States gets each change of the state of a probe.
	States states.Reader
	// RestartGrace is the field of [manager.Config].
	RestartGrace time.Duration
	// Saving returns the status of saving state for the next agent.
	Saving func() Saving
	// Targets returns the targets as of the last attempt to apply the desired pods. Each scrape and each
	// check of readiness calls it, so it must not block, and should not copy them.
	Targets func() Targets
	// Troubles returns the present faults of the source, such as an unreachable API server. Each check of
	// readiness calls it, so it must not block.
	Troubles func() []Trouble

	// NetworkOf returns the path of the network namespace in which a pod is probed, where loopback
	// addresses are the pod's own; ok is false for the agent's own namespace. Every attempt of every probe
	// calls it, so it must not block. For a pod that has ended, it returns ok until the pod's probes have
	// ended: otherwise the last attempts would reach the agent's network. An empty path means that the
	// namespace does not exist yet: the attempt is an error.
	NetworkOf func(podUID string) (path string, ok bool)
	// Guard returns an error if a probe of a pod must not connect to a target, regardless of its config.
	// Every handler calls it right before it connects. WebAssembly plugins do not call it for connections that a
	// grant allows. For plugins that are programs, it checks the target in their request. It must not block.
	Guard func(podUID string, to netns.To) error
	// OwnName reports whether a file of the agent's operator lists a pod as a target with host, a name. The name may
	// then lead to a loopback address. It must not block. A node of a cluster cannot have it. Nil means never.
	OwnName func(podUID, host string) bool
	// NodeCounts returns the counts of a node of a cluster, for the metrics. Each scrape calls it, so it
	// must not block. A source with NodeCounts requires Guard, because others than the agent's operator
	// write the pods of a cluster.
	NodeCounts func() agentmetrics.NodeCounts
}

// Validate returns an error if required fields are missing.
func (s *Source) Validate() error {
	switch {
	case s.Status == nil || s.Start == nil || s.Stop == nil || s.Pods == nil || s.Watch == nil:
		return errors.New("source of pods: Status, Start, Stop, Pods and Watch are required")
	case s.NodeCounts != nil && s.Guard == nil:
		return errors.New("source of pods: a node of a cluster (NodeCounts) requires a Guard: other people choose the targets of its probes")
	case s.NodeCounts != nil && s.OwnName != nil:
		return errors.New("source of pods: a node of a cluster (NodeCounts) cannot have OwnName: other people name the targets of its probes")
	}
	return nil
}
