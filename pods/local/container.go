package local

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/internal/procgroup"
	"github.com/daeace23/prober/pods/local/internal/process"
)

// The reasons in a container's state, as in the kubelet.
const (
	reasonCreating     = "ContainerCreating"
	reasonInitializing = "PodInitializing"
	reasonCrashLoop    = "CrashLoopBackOff"
	reasonCompleted    = "Completed"
	reasonError        = "Error"
	reasonStartError   = "StartError"
)

// container is one container of a pod. The pod's mu guards it.
type container struct {
	name     string // read-only
	init     bool   // read-only
	spec     *v1.Container
	probes   podProbes // probes in the present spec
	external bool

	state       viewState
	id          string // ID of the present or last incarnation
	hash        string // hash of the definition that it was started from
	dir         string // directory of its process; like env, not set for an external target
	env         []string
	user        *procgroup.User  // nil: the agent's
	process     *process.Process // nil for an external target
	postStarted bool             // its postStart hook has ended: it counts as running
	preStopped  bool             // its preStop hook has ended
	started     time.Time
	restarts    int32
	end         *v1.ContainerStateTerminated // end of the present incarnation, while finished
	last        *v1.ContainerStateTerminated // end of the previous incarnation
	stopping    *stopping                    // nil: it is not being killed
	again       bool                         // it was killed to be restarted
	cause       killCause                    // cause of that kill
	killed      bool                         // it was killed to be restarted, and no start was tried since

	startedText string // text of the event Started; "" for the first start; read-only while c is launched

	back    backoff
	waiting string    // the message while c waits for its back-off
	retry   time.Time // the end of that wait
}

func newContainer(spec *v1.Container, init bool) *container {
	return &container{name: spec.Name, spec: spec, init: init, external: isExternal(spec)}
}

// isExternal reports whether a container is an external target. It is always running, and cannot
// be started, stopped or restarted.
func isExternal(c *v1.Container) bool { return len(c.Command) == 0 }

// status returns the status of c without the results of probes.
func (c *container) status(initialized bool) v1.ContainerStatus {
	s := v1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, RestartCount: c.restarts, ContainerID: c.id,
	}
	if c.last != nil {
		s.LastTerminationState.Terminated = c.last
	}
	switch {
	case c.state == absent && c.init, c.state == absent && initialized:
		s.State.Waiting = &v1.ContainerStateWaiting{Reason: reasonCreating}
		if c.init && !initialized {
			s.State.Waiting.Reason = reasonInitializing
		}
	case c.state == absent:
		s.State.Waiting = &v1.ContainerStateWaiting{Reason: reasonInitializing}
	case c.state == running && !c.postStarted:
		s.ContainerID = "" // as in the kubelet, where a container that has an ID but does not run fails its probes
		s.State.Waiting = &v1.ContainerStateWaiting{Reason: reasonCreating}
	case c.state == running:
		s.State.Running = &v1.ContainerStateRunning{StartedAt: metav1.NewTime(c.started)}
	case c.waiting != "":
		s.State.Waiting = &v1.ContainerStateWaiting{Reason: reasonCrashLoop, Message: c.waiting}
		s.LastTerminationState.Terminated = c.end
	default:
		s.State.Terminated = c.end
	}
	return s
}

// finish records the end of the container.
func (c *container) finish(e process.Exit, reason string) {
	c.state = finished
	c.end = &v1.ContainerStateTerminated{
		ExitCode: int32(e.Code), Signal: int32(e.Signal), Reason: reason, Message: e.Message, ContainerID: c.id,
		StartedAt: metav1.NewTime(c.started), FinishedAt: metav1.NewTime(e.At),
	}
	if reason == "" {
		c.end.Reason = reasonCompleted
		if e.Code != 0 {
			c.end.Reason = reasonError
		}
	}
	if c.stopping != nil {
		c.stopping.cancel()
		c.stopping = nil
	}
}

// backOffUntil returns the end of the back-off, or the zero time if c may start now. For a
// container that was killed to be restarted, the back-off counts from the end of the previous incarnation.
func (c *container) backOffUntil(now time.Time) time.Time {
	at := c.back.until(c.endForBackoff())
	if !at.After(now) {
		return time.Time{}
	}
	if c.killed { // the next back-off counts from the last end
		c.killed = false
		at = c.back.until(c.endForBackoff())
	}
	return at
}

// endForBackoff returns the end from which the back-off counts, or the zero time.
func (c *container) endForBackoff() time.Time {
	end := c.end
	if c.killed {
		end = c.last
	}
	if end == nil {
		return time.Time{}
	}
	return end.FinishedAt.Time
}

// running reports whether c runs. It may be about to be killed.
func (c *container) running() bool { return c.state == running }

// backoff is the crash back-off of one container. The zero value is for a container that
// was never restarted.
type backoff struct {
	pause time.Duration // 0: the first restart does not wait
	last  time.Time     // time of the last restart
}

// until returns when a container that ended at ended may start again. The zero time means at once.
func (b *backoff) until(ended time.Time) time.Time {
	if b.pause == 0 || ended.IsZero() || b.expired(ended) {
		return time.Time{}
	}
	return ended.Add(b.pause)
}

// next counts a restart of a container that ended at ended.
func (b *backoff) next(now, ended time.Time, base time.Duration) {
	if b.pause == 0 || b.expired(ended) {
		b.pause = base
	} else {
		b.pause = min(2*b.pause, max(base, maxRestartBackoff))
	}
	b.last = now
}

// expired reports whether the container ran long enough after its last restart.
func (b *backoff) expired(ended time.Time) bool { return ended.Sub(b.last) > restartBackoffReset }
