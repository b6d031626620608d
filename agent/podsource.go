package agent

import (
	"context"
	"errors"
	"iter"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/pods"
)

// PodSource is where the pods of an agent come from: it knows which pods there should be,
// and the status of those that there are. It may run their containers itself, as pods/local
// does, or follow what another program runs.
//
// [Config].Source makes it, with a [pods.Host]: what the agent does for it. Then the agent
// makes a manager that asks it for statuses, and calls Start once and Stop once; where New
// fails, or Run is never called, it calls neither. All methods are safe for concurrent use.
//
// A source may also implement [Reloader], [builtin.CommandRunner] for exec probes,
// [manager.RestartSource], [RestartGracer] and [StateSaver]. memory_test.go has the smallest
// source, docs/embedding.md how to use one.
type PodSource interface {
	// PodStatus returns the present status of a pod, false for one that is not known. It is
	// called at every tick of every probe, by many goroutines, from before Start on: it must
	// answer from memory. What it returns is not modified.
	manager.StatusSource

	// Start begins to bring the pods to what they should be, and to tell m of them
	// (AddPod, UpdatePod, RemovePod). A new status goes through m.UpdatePodStatus before
	// PodStatus returns it, which says whether containers have started and are ready.
	// Start returns at once. At the end of ctx,
	// no more pods are added or changed; those that there are go on until Stop.
	// A source reports each attempt by [pods.Host].Applied or Refused; the agent is ready
	// after the first that was applied.
	Start(ctx context.Context, m *manager.Manager)

	// Stop ends what Start has begun, after the end of its context. A source that runs
	// containers ends them, with the grace that they ask for; ctx ends that grace. Probes go
	// on until Stop returns. Then nothing that the source has started is left, and it does not use
	// the manager and the host any more.
	Stop(ctx context.Context) error

	// Pods returns copies of all pods with their present status, sorted by namespace and name.
	Pods() []v1.Pod

	// Watch returns the changes of all pods, and of their statuses, from now until ctx ends,
	// beginning with what they are now. A slow reader blocks nothing: it finds the newest state of every
	// pod, and misses those between.
	Watch(ctx context.Context) iter.Seq[pods.Change]
}

// Reloader is a [PodSource] that can make another attempt to bring the pods to what they
// should be. The agent asks for one on request, and when a plugin or a secret is there that
// may have been missing.
type Reloader interface {
	// Reload makes an attempt and reports it to the host, whose answer it returns. The agent
	// does not call it concurrently with itself, but at any time after Start.
	Reload(ctx context.Context, r pods.Reload) error
}

// RestartGracer is a [PodSource] whose manager needs another RestartGrace than the default,
// see [manager.Config].
type RestartGracer interface {
	RestartGrace() time.Duration
}

// StateSaver is a [PodSource] that keeps state over a restart of the agent.
type StateSaver interface {
	// Saving returns how that goes.
	Saving() pods.Saving
}

// podHost returns what the agent offers to its source of pods.
func (a *Agent) podHost() pods.Host {
	return pods.Host{
		Logger: a.log, Recorder: a.events, Output: a.stdout, PollInterval: a.cfg.PollInterval,
		Mark: a.cfg.mark, RunsPrograms: a.handlers.RunsPrograms,
		Begin: a.beginPods, Check: a.checkPod, Refused: a.podsRefused, Applied: a.podsApplied,
		RequestReload: func(cause string) { a.podsTrigger.request(cause, false) },
		Restarted:     a.restarted,
	}
}

// saving returns how it goes with the state that the source keeps.
func (a *Agent) saving() pods.Saving {
	if s, ok := a.source.(StateSaver); ok {
		return s.Saving()
	}
	return pods.Saving{}
}

// restartGrace returns that of the source; 0 for the default.
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

// containerRunner runs the commands of exec probes in the containers of the source, which is
// made later than the handlers.
type containerRunner struct {
	source builtin.CommandRunner // set before a probe runs; nil: the source does not implement it
}

var _ builtin.CommandRunner = (*containerRunner)(nil)

// RunInContainer implements [builtin.CommandRunner].
func (r *containerRunner) RunInContainer(ctx context.Context, containerID string, cmd []string, timeout time.Duration) ([]byte, error) {
	if r.source == nil {
		return nil, errors.New("commands cannot be run in the containers of this agent")
	}
	return r.source.RunInContainer(ctx, containerID, cmd, timeout)
}
