package agent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/pods"
)

// PodSource has the pods of an agent: those that are desired, and the status of those that run. It
// may run their containers itself, as pods/local does, or follow another program that does.
//
// [Config].Source makes it, with the [pods.Host] that the agent offers to it. The agent makes a
// manager that gets statuses from the source. It calls Start once and Stop once; if New fails, or
// Run is never called, it calls neither. All methods are safe for concurrent use.
//
// A source may also implement [Reloader], [builtin.CommandRunner] for exec probes,
// [manager.RestartSource], [manager.StatusPublisher], [states.Reader], [RestartGracer], [StateSaver],
// [TargetSource], [NetworkSource], [TroubleSource] and [NodeCounter].
// memory_test.go has the smallest source, docs/embedding.md how to use one.
type PodSource interface {
	// PodStatus returns the present status of a pod, false for an unknown one. Every tick of every
	// probe calls it, also before Start: it must return from memory. The agent does not modify the
	// status. A source that is a [manager.StatusPublisher] is not called at each tick.
	manager.StatusSource

	// Start begins to apply the desired pods, with m.AddPod, UpdatePod and RemovePod. It returns at
	// once. For each new status the source calls m.UpdatePodStatus first, which sets in it whether
	// containers have started and are ready. Only then PodStatus may return it. When ctx ends, the source adds and changes
	// no more pods; those that run go on until Stop. It reports each attempt with [pods.Host].Applied
	// or Refused; the agent is ready after the first call of Applied.
	Start(ctx context.Context, m *manager.Manager)

	// Stop ends what Start has begun, after the end of the context of Start. A source that runs
	// containers ends them with their grace periods; the end of ctx ends these. Probes go on until
	// Stop returns. After that, nothing that the source has started is running, and it does not use
	// the manager and the host.
	Stop(ctx context.Context) error

	// Pods returns all pods with their present status, sorted by namespace and name. The agent does
	// not modify them: they may share what they point to.
	Pods() []v1.Pod

	// Watch returns all pods, and then the changes of pods and their statuses until ctx ends. A slow
	// reader blocks nothing: it gets the newest state of each pod, and misses those before.
	Watch(ctx context.Context) iter.Seq[pods.Change]
}

// Reloader is a [PodSource] that can make another attempt to apply the desired pods. The agent
// calls it on request, and when a missing plugin or secret may have appeared.
type Reloader interface {
	// Reload makes an attempt, reports it to the host, and returns what the host returns. The agent
	// calls it at any time after Start, but not concurrently with itself.
	Reload(ctx context.Context, r pods.Reload) error
}

// RestartGracer is a [PodSource] whose manager needs another RestartGrace than the default,
// see [manager.Config].
type RestartGracer interface {
	RestartGrace() time.Duration
}

// NetworkSource is a [PodSource] with pods that are probed in their own network namespaces, where their
// loopback addresses are theirs.
type NetworkSource interface {
	// NetworkOf returns the path of the network namespace in which the pod is probed; ok is false for the
	// agent's own. Every attempt of every probe calls it: it must return from memory. It returns ok also
	// for a pod that has ended, until its probes have: otherwise the last attempts would reach the
	// agent's own network. "" stands for a namespace that is not there yet: the attempt is an error,
	// and no verdict.
	NetworkOf(podUID string) (path string, ok bool)
}

// TargetGuard is a [NetworkSource] that limits what probes connect to, whatever their config says. Every
// handler asks it right before it connects: the built-in ones, WebAssembly plugins unless a grant allows the
// connection, and plugins that are programs for the target in their request.
type TargetGuard interface {
	// CheckTarget returns why a probe of a pod must not connect to a target. It must not block.
	CheckTarget(podUID string, to netns.To) error
}

// StateSaver is a [PodSource] that keeps state over a restart of the agent.
type StateSaver interface {
	// Saving returns the condition of that state.
	Saving() pods.Saving
}

// TargetSource is a [PodSource] with pods of targets, which discovery adds and drops.
type TargetSource interface {
	// Targets returns the targets as of the last attempt to apply the desired pods. It does not block,
	// and does not copy them: each scrape and each check of readiness calls it.
	Targets() pods.Targets
}

// TroubleSource is a [PodSource] that depends on something that may fail, such as an API server.
type TroubleSource interface {
	// Troubles returns what keeps the source from a part of its work at present. Each check of
	// readiness calls it: it must not block.
	Troubles() []pods.Trouble
}

// NodeCounter is a [PodSource] of a node of a cluster, with counts for the metrics.
type NodeCounter interface {
	// NodeCounts returns the counts. Each scrape calls it: it must not block.
	NodeCounts() metrics.NodeCounts
}

// troubleChecks returns a warning for each trouble of the source.
func (a *Agent) troubleChecks() (checks []healthCheck) {
	if s, ok := a.source.(TroubleSource); ok {
		for _, t := range s.Troubles() {
			checks = append(checks, healthCheck{t.Name, "!", strings.ReplaceAll(t.Text, "\n", "; ")})
		}
	}
	return checks
}

// registerNode registers the metrics of a source that is a [NodeCounter].
func (a *Agent) registerNode() error {
	if s, ok := a.source.(NodeCounter); ok {
		return metrics.RegisterNode(a.registry, s.NodeCounts)
	}
	return nil
}

// targets returns the targets of the source; none if it has none.
func (a *Agent) targets() pods.Targets {
	if s, ok := a.source.(TargetSource); ok {
		return s.Targets()
	}
	return pods.Targets{}
}

// whyNoTarget says why a pod of a target does not exist; "" if it is not the pod of a target that is
// known.
func (a *Agent) whyNoTarget(namespace, pod string) string {
	all := a.targets().Items
	for i := len(all) - 1; i >= 0; i-- { // those that are gone are the last ones
		t := &all[i]
		if t.Namespace != namespace || t.Pod != pod || t.State == pods.TargetProbed {
			continue
		}
		since := ""
		if !t.Since.IsZero() {
			since = " since " + t.Since.Format(time.RFC3339)
		}
		return fmt.Sprintf("the target %q of group %s is %s%s: %s", t.Name, t.Group, t.State, since, t.Reason)
	}
	return ""
}

// targetChecks returns a warning for each source of targets that cannot be refreshed.
func (a *Agent) targetChecks() (checks []healthCheck) {
	for _, s := range a.targets().Sources {
		if s.Err != nil {
			checks = append(checks, healthCheck{"targets", "!", "group " + s.Group + ": " + s.Source + " cannot be refreshed, the last good list is kept: " + joined.Line(s.Err)})
		}
	}
	return checks
}

// countTargets returns the targets for the metrics.
func (a *Agent) countTargets() metrics.Targets {
	all := a.targets()
	counts := metrics.Targets{Probed: func(yield func(metrics.Target) bool) {
		for i := range all.Items {
			t := &all.Items[i]
			if t.State == pods.TargetProbed && !yield(metrics.Target{Namespace: t.Namespace, Pod: t.Pod, Container: pods.TargetContainer, Group: t.Group, Address: t.Address}) {
				return
			}
		}
	}}
	for _, s := range all.Sources {
		counts.Sources = append(counts.Sources, metrics.TargetSource{
			Group: s.Group, Source: s.Source, Failures: s.Failures, Refreshed: s.Refreshed,
			States: map[string]int{pods.TargetProbed: s.Probed, pods.TargetDropped: s.Dropped},
		})
	}
	return counts
}

// podHost returns the agent's side of the interface with its source of pods.
func (a *Agent) podHost() pods.Host {
	return pods.Host{
		Logger: a.log, Recorder: a.events, Output: a.stdout, PollInterval: a.cfg.PollInterval,
		Mark: a.cfg.mark, RunsPrograms: a.handlers.RunsPrograms,
		Begin: a.beginPods, Check: a.checkPod, Refused: a.podsRefused, Applied: a.podsApplied,
		RequestReload: func(cause string) { a.podsTrigger.request(cause, false) },
		Restarted:     a.restarted,
	}
}

// saving returns the condition of the state that the source keeps; zero if it keeps none.
func (a *Agent) saving() pods.Saving {
	if s, ok := a.source.(StateSaver); ok {
		return s.Saving()
	}
	return pods.Saving{}
}

// sourceReader returns the source as a reader of states, if it is one.
func sourceReader(source PodSource) (readers []states.Reader) {
	if r, ok := source.(states.Reader); ok {
		readers = append(readers, r)
	}
	return readers
}

// restartGrace returns the RestartGrace of the source; 0 for the default.
func restartGrace(source PodSource) time.Duration {
	if g, ok := source.(RestartGracer); ok {
		return g.RestartGrace()
	}
	return 0
}

// restarted counts and logs a restart of a container.
func (a *Agent) restarted(r pods.Restart) {
	a.metrics.Restarted(r.Cause, r.Namespace, r.Pod, r.Container)
	attrs := []any{"namespace", r.Namespace, "pod", r.Pod, "container", r.Container, "cause", r.Cause, "count", r.Count, "exitCode", r.ExitCode}
	if r.Signal != "" {
		attrs = append(attrs, "signal", r.Signal)
	}
	a.log.Warn("container restarted", attrs...)
}

// containerRunner runs the commands of exec probes in the containers of the source. The source is
// made after the handlers.
type containerRunner struct {
	source builtin.CommandRunner // set before a probe runs; nil: the source does not implement it
}

var _ builtin.CommandRunner = (*containerRunner)(nil)

// RunInContainer implements [builtin.CommandRunner].
func (r *containerRunner) RunInContainer(ctx context.Context, containerID string, cmd []string, timeout time.Duration) ([]byte, error) {
	if r.source == nil {
		return nil, errors.New("the source of pods cannot run commands in containers")
	}
	return r.source.RunInContainer(ctx, containerID, cmd, timeout)
}
