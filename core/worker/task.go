// Package worker has the types shared by the workers of probes and the users of packages group and manager.
//
// A probe belongs to a [Task]; its [State] is the input of a worker. An [Observer] gets each [Tick], or the
// reason why there was none: a [Gate] or a [SkipReason]. [Attempt] makes one attempt as a tick does. The
// workers themselves are in core/internal/engine.
package worker

import (
	"time"

	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// Source returns the state of a task whose owner does not publish it with [Task.SetState].
type Source interface {
	// State is called at every tick of every probe of the task, by the goroutine of the tick, with no lock
	// held. Calls may be concurrent. It must not do I/O.
	State() State
}

// Publisher is a [Source] that can publish the state of its task instead, which makes ticks cheaper.
type Publisher interface {
	Source
	// Publish calls set with the present state, and then with every new one until stop is called. Publish
	// is called when the first worker of the task is made, and stop when the last one has ended. The caller
	// is the goroutine that makes or stops the worker, or the goroutine of a tick. Both are called with the
	// lock of the task held, so they must not add or stop probes. If ok is false, State is called at every
	// tick instead.
	Publish(set func(State)) (stop func(), ok bool)
}

// State is the state of a task that its probes depend on. In Kubernetes it comes from the status of a pod
// and one of its containers.
type State struct {
	// ContainerID identifies this run of the task; "" before the first run. Results are kept by container
	// ID. While another task of the group has the same ID, the probes of this task make no attempts, and
	// their gate is [InUse]. A new ID is a new run: the results of the old run are dropped.
	ContainerID string
	StartedAt   time.Time // when the run began; a time in the future means now
	PodIP       string    // the default host of targets
	Found       bool      // the task has a status
	Running     bool      // the task runs
	Started     bool      // its startup probe has succeeded, or it has no startup probe
	Final       bool      // it is not running, and will not run again: its probes end
	Deleting    bool      // the pod is being deleted
	PodEnded    bool      // the pod's phase is Failed or Succeeded: its probes end
}

// Running returns the state of a task that has been running since the given time, and has started: it has
// no startup probe.
func Running(id string, since time.Time) State {
	return State{Found: true, ContainerID: id, Running: true, StartedAt: since, Started: true}
}

// Starting returns the state of a task that has been running since the given time, and starts when its
// startup probe succeeds. The caller must then call [Task.SetStarted].
func Starting(id string, since time.Time) State {
	return State{Found: true, ContainerID: id, Running: true, StartedAt: since}
}

// Stopped returns the state of a task that is not running now.
func Stopped(id string) State { return State{Found: true, ContainerID: id} }

// Task is the object of probes: in Kubernetes a container. The workers of a task share it. Its fields are
// read-only once it is in use.
type Task struct {
	// Subject identifies the task in updates, events, observers and logs.
	Subject results.Subject
	// Pod and Container are passed to handlers. The first worker of the task sets nil ones, with the names
	// in Subject.
	Pod       *probe.Pod
	Container *probe.Container
	// Source returns the state of the task, and may be a [Publisher]. If it is nil, [Task.SetState] sets
	// the state.
	Source Source
	// PriorID is the container ID that an earlier agent left in the status of the pod, as of when the pod
	// was added.
	PriorID string
	// NoRestart means that a failed probe does not restart the task, so a failure does not put the worker
	// on hold.
	NoRestart bool
	// Sidecar marks a restartable init container.
	Sidecar bool

	inner
}

// SetState publishes the state of a task without a Source. The next tick of each probe uses it, up to a
// period later. A trigger makes a tick now.
func (t *Task) SetState(s State) {
	i := seam.Reveal(&t.inner)
	if i.publish(s) {
		i.wake()
	}
}

// SetStarted publishes that the run id of t has started. It returns false, and does nothing, if t is in
// another run now.
func (t *Task) SetStarted(id string) bool {
	i := seam.Reveal(&t.inner)
	for {
		now := i.published.Load()
		if now == nil || now.ContainerID != id {
			return false
		}
		next := *now
		next.Started = true
		if i.published.CompareAndSwap(now, &next) {
			i.wake()
			return true
		}
	}
}

// State returns the last published state of t. If Source does not publish, it returns the state of the last
// tick. Before the first state it returns the zero value.
func (t *Task) State() State { return *seam.Reveal(&t.inner).Current() }
