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

// Source has the pods of an agent: those that are desired, and the status of those that run. It
// may run their containers itself, as pods/local does, or follow another program that does.
//
// Config.Source of package agent makes it, with the [Host] that the agent offers to it. The agent
// makes a manager that gets statuses from the source. It calls Start once and Stop once; if New
// fails, or Run is never called, it calls neither. All functions are safe for concurrent use.
//
// Status, Start, Stop, Pods and Watch are required. A source leaves the other fields zero for what
// it does not offer. memory_test.go of package agent has the smallest source, docs/embed/own-source-of-pods.md
// how to use one.
type Source struct {
	// Status returns the present status of a pod, false for an unknown one. Every tick of every
	// probe calls it, also before Start: it must return from memory. The agent does not modify the
	// status. It may be a [manager.StatusPublisher], which is not called at each tick, and a
	// [manager.RestartSource].
	Status manager.StatusSource
	// Start begins to apply the desired pods, with m.AddPod, UpdatePod and RemovePod. It returns at
	// once. For each new status the source calls m.UpdatePodStatus first, which sets in it whether
	// containers have started and are ready. Only then Status may return it. When ctx ends, the
	// source adds and changes no more pods; those that run go on until Stop. It reports each attempt
	// with [Host].Applied or Refused; the agent is ready after the first call of Applied.
	Start func(ctx context.Context, m *manager.Manager)
	// Stop ends what Start has begun, after the end of the context of Start. A source that runs
	// containers ends them with their grace periods; the end of ctx ends these. Probes go on until
	// Stop returns. After that, nothing that the source has started is running, and it does not use
	// the manager and the host.
	Stop func(ctx context.Context) error
	// Pods returns all pods with their present status, sorted by namespace and name. The agent does
	// not modify them: they may share the data behind their pointers.
	Pods func() []v1.Pod
	// Watch returns all pods, and then the changes of pods and their statuses until ctx ends. A slow
	// reader blocks nothing: it gets the newest state of each pod, and misses those before.
	Watch func(ctx context.Context) iter.Seq[Change]

	// Reload makes another attempt to apply the desired pods, reports it to the host, and returns
	// what the host returns. The agent calls it on request, and when a missing plugin or secret may
	// have appeared: at any time after Start, but not concurrently with itself.
	Reload func(ctx context.Context, r Reload) error
	// RunInContainer runs the command of an exec probe, as builtin.CommandRunner says.
	RunInContainer func(ctx context.Context, containerID string, cmd []string, timeout time.Duration) ([]byte, error)
	// States is told each change of the state of a probe.
	States states.Reader
	// RestartGrace is the field of [manager.Config].
	RestartGrace time.Duration
	// Saving returns the condition of the state that the source keeps over a restart of the agent.
	Saving func() Saving
	// Targets returns the targets as of the last attempt to apply the desired pods. It does not block,
	// and does not copy them: each scrape and each check of readiness calls it.
	Targets func() Targets
	// Troubles returns what keeps the source from a part of its work at present, such as an API
	// server that is down. Each check of readiness calls it: it must not block.
	Troubles func() []Trouble

	// NetworkOf returns the path of the network namespace in which a pod is probed, where loopback
	// addresses are the pod's own; ok is false for the agent's own. Every attempt of every probe
	// calls it: it must return from memory. It returns ok also for a pod that has ended, until its
	// probes have: otherwise the last attempts would reach the agent's own network. "" stands for a
	// namespace that is not there yet: the attempt is an error, and no verdict.
	NetworkOf func(podUID string) (path string, ok bool)
	// Guard returns why a probe of a pod must not connect to a target, whatever its config says. Every
	// handler asks it right before it connects: the built-in ones, WebAssembly plugins unless a grant
	// allows the connection, and plugins that are programs for the target in their request. It must not
	// block.
	Guard func(podUID string, to netns.To) error
	// NodeCounts returns the counts of a node of a cluster, for the metrics. Each scrape calls it: it
	// must not block. Other people than the agent's operator write the pods of a cluster: with
	// NodeCounts, Guard is required.
	NodeCounts func() agentmetrics.NodeCounts
}

// Validate returns an error for a source that an agent cannot use, or must not.
func (s *Source) Validate() error {
	switch {
	case s.Status == nil || s.Start == nil || s.Stop == nil || s.Pods == nil || s.Watch == nil:
		return errors.New("source of pods: Status, Start, Stop, Pods and Watch are required")
	case s.NodeCounts != nil && s.Guard == nil:
		return errors.New("source of pods: a node of a cluster (NodeCounts) requires a Guard: other people choose the targets of its probes")
	}
	return nil
}
