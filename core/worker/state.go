package worker

import (
	"time"

	"github.com/daeace23/prober/probe"
)

// Source tells a worker how the container that it probes is doing. State is called
// at every tick and does no I/O.
type Source interface {
	State() State
}

// State is what the gates of a tick look at.
type State struct {
	Found       bool      // the pod has a status
	PodEnded    bool      // its phase is Failed or Succeeded
	ContainerID string    // "" while the container has no status with an ID
	Running     bool      // the container runs
	StartedAt   time.Time // since when it runs
	Started     bool      // its status says that it has started
	MayRestart  bool      // it does not run, but may again
	Deleting    bool      // the pod is being deleted
	PodIP       string
}

// Container is what the three workers of one container share.
type Container struct {
	Pod       *probe.Pod
	Container *probe.Container
	Source    Source
	// Sidecar marks a restartable init container.
	Sidecar bool
	// NoRestart says that nobody restarts the container when a probe has failed: its
	// failures put no worker on hold.
	NoRestart bool
	// PriorID is the container ID that the pod's status carried when the pod was
	// added: what the agent before this one knew.
	PriorID string
}
