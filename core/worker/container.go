package worker

import (
	"time"

	"github.com/daeace23/prober/probe"
)

// Source returns the state of the container that a worker probes. State is called at every
// tick, and must not do I/O.
type Source interface {
	State() State
}

// State is the state of a pod and one of its containers, from the status of the pod.
type State struct {
	Found       bool      // the pod has a status
	PodEnded    bool      // its phase is Failed or Succeeded
	ContainerID string    // "" until the status has one
	Running     bool      // the container runs
	StartedAt   time.Time // when it began to run
	Started     bool      // the status has started: true
	MayRestart  bool      // it does not run, and its restart policy restarts it
	Deleting    bool      // the pod is being deleted
	PodIP       string
}

// Container is what the workers of one container share.
type Container struct {
	Pod       *probe.Pod
	Container *probe.Container
	Source    Source
	// Sidecar marks a restartable init container.
	Sidecar bool
	// NoRestart means that a failed probe does not restart the container, so that a failure
	// does not put the worker on hold.
	NoRestart bool
	// PriorID is the container ID in the status of the pod when the pod was added, as an
	// earlier agent left it.
	PriorID string
}
