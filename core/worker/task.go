// Package worker has the types by which the users of package group and package manager speak with the
// workers that run their probes.
//
// Probes have a [Task], and its [State] is all that a worker must know of it. An [Observer] gets each
// [Tick], and why there was none: a [Gate] or a [SkipReason]. [Attempt] makes one attempt as a tick does.
// The workers themselves are in core/internal/engine.
package worker

import (
	"time"

	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// Source returns the state of a task whose owner does not publish it with [Task.SetState].
type Source interface {
	// State is called at every tick of every probe of the task, by the goroutine of the tick,
	// with no lock held and concurrently with itself. It must not do I/O.
	State() State
}

// Publisher is a [Source] that can publish the state of its task instead, which makes a tick
// cheaper.
type Publisher interface {
	Source
	// Publish calls set with the present state, and then with every new one until stop is
	// called. It is called when the first worker of the task is made, and stop when the last
	// one has ended, by the goroutines that make and stop the workers or by that of a tick. Both
	// are called with the lock of the task held: they must not add or stop probes. With ok
	// false, State is called at every tick after all.
	Publish(set func(State)) (stop func(), ok bool)
}

// State is what the probes of a task must know of it. In Kubernetes it is the state of a pod and
// one of its containers, from the status of the pod.
type State struct {
	// ContainerID names this run of the task, "" until there is one. Results are kept by it: while
	// another task of the group has the same, the probes of this one make no attempts, and its gate
	// is [InUse]. Another ID is another run: the results of the old one are dropped.
	ContainerID string
	StartedAt   time.Time // when it began to run; a time in the future is now
	PodIP       string    // the default host of targets
	Found       bool      // there is a status at all
	Running     bool      // the task runs
	Started     bool      // its startup probe has succeeded, or it has none
	Final       bool      // it does not run, and will not run again: its probes end
	Deleting    bool      // the pod is being deleted
	PodEnded    bool      // the pod's phase is Failed or Succeeded: its probes end
}

// Running returns the state of a task that runs since the given time, and has started: it has no
// startup probe.
func Running(id string, since time.Time) State {
	return State{Found: true, ContainerID: id, Running: true, StartedAt: since, Started: true}
}

// Starting returns the state of a task that runs since the given time, and has started when its
// startup probe succeeds: then [Task.SetStarted] is to be called.
func Starting(id string, since time.Time) State {
	return State{Found: true, ContainerID: id, Running: true, StartedAt: since}
}

// Stopped returns the state of a task that does not run now.
func Stopped(id string) State { return State{Found: true, ContainerID: id} }

// Task is what is probed: in Kubernetes a container. The workers of a task share it. Its fields
// are read-only once it is in use.
type Task struct {
	// Subject is what updates, events, observers and logs call the task.
	Subject results.Subject
	// Pod and Container are for handlers. The first worker of the task sets those that are nil,
	// with the names of Subject.
	Pod       *probe.Pod
	Container *probe.Container
	// Source returns the state of the task, and may be a [Publisher]. If it is nil, the state is
	// the last one of [Task.SetState].
	Source Source
	// PriorID is the container ID in the status of the pod when the pod was added, as an
	// earlier agent left it.
	PriorID string
	// NoRestart means that a failed probe does not restart the task, so that a failure does
	// not put the worker on hold.
	NoRestart bool
	// Sidecar marks a restartable init container.
	Sidecar bool

	inner
}

// SetState publishes the state of a task without a Source. The next tick of each probe uses it,
// up to a period later; a trigger makes one now.
func (t *Task) SetState(s State) {
	i := seam.Of(&t.inner)
	if i.publish(s) {
		i.wake()
	}
}

// SetStarted publishes that a run of t has started. It reports false, and does nothing, if t is in
// another run now.
func (t *Task) SetStarted(id string) bool {
	i := seam.Of(&t.inner)
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

// State returns the last published state of t, or that of the last tick if Source publishes none.
// Before the first it is the zero value.
func (t *Task) State() State { return *seam.Of(&t.inner).Known() }
