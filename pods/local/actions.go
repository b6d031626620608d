package local

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
)

// viewState is the state of a container.
type viewState uint8

const (
	absent   viewState = iota // never started
	running                   // also while its postStart hook runs, and while it is being killed
	finished                  // ended
)

// decision is a decided result; found is false when there is none.
type decision struct {
	result results.Result
	found  bool
}

func (d decision) equals(r results.Result) bool { return d.found && d.result == r }

// view is the input of computeActions for one container.
type view struct {
	state             viewState
	exitCode          int32
	again             bool // it was killed to be restarted
	stopping          bool // it is being killed
	changed           bool // its definition has changed since it was started
	external          bool // a failed probe does not restart it
	liveness, startup decision
	hasStartup        bool // it has a startup probe
}

// killRequest describes the kill of a container.
type killRequest struct {
	container *v1.Container
	message   string    // of the event
	cause     killCause // for the grace period and the restart
	restart   bool      // the container is started again
	whole     bool      // the whole pod is ended
}

// killCause is why a container is killed.
type killCause string

const (
	causeNone     killCause = ""
	causeLiveness killCause = "liveness"
	causeStartup  killCause = "startup"
	causeChanged  killCause = "changed"
)

// actions has the next actions for a pod.
type actions struct {
	killPod     bool // no container remains to be kept or started
	initialized bool // regular containers may run
	kill        []killRequest
	start       []*v1.Container // init containers first; those in kill after their end
}

// computeActions returns the next actions for a pod, as the kubelet's computePodActions does for a
// pod whose sandbox exists. It is a pure function.
func computeActions(pod *v1.Pod, views map[string]view) actions {
	var a actions
	a.initialized = a.initContainers(pod, views)
	if a.killPod || !a.initialized {
		return a
	}
	var starts []*v1.Container
	kept := 0
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		v := views[c.Name]
		switch {
		case v.state == absent, v.state == finished && v.restarts(c, pod):
			starts = append(starts, c)
		case v.state == finished:
		default:
			kill, ok := v.kill(c, pod)
			switch {
			case !ok:
				kept++
			case kill.restart:
				starts = append(starts, c)
				fallthrough
			default:
				a.kill = append(a.kill, kill)
			}
		}
	}
	if kept == 0 && len(starts) == 0 {
		return actions{killPod: true, initialized: true}
	}
	a.start = append(a.start, starts...)
	return a
}

// restarts reports whether a container that has ended must be restarted.
func (v view) restarts(c *v1.Container, pod *v1.Pod) bool {
	return v.again || v.external || manager.ContainerShouldRestart(c, &pod.Spec, v.exitCode)
}

// kill reports whether a running regular container must be killed, and describes the kill.
func (v view) kill(c *v1.Container, pod *v1.Pod) (k killRequest, ok bool) {
	if v.stopping {
		return killRequest{}, false
	}
	// There is no exit code yet, so restart rules do not apply.
	k = killRequest{container: c, restart: pod.Spec.RestartPolicy != v1.RestartPolicyNever}
	if c.RestartPolicy != nil {
		k.restart = *c.RestartPolicy != v1.ContainerRestartPolicyNever
	}
	switch {
	case v.changed:
		k.cause, k.message, k.restart = causeChanged, fmt.Sprintf("Container %s definition changed", c.Name), true
	case v.external:
		return killRequest{}, false
	case v.liveness.equals(results.Failure):
		k.cause, k.message = causeLiveness, fmt.Sprintf("Container %s failed liveness probe", c.Name)
	case v.startup.equals(results.Failure):
		k.cause, k.message = causeStartup, fmt.Sprintf("Container %s failed startup probe", c.Name)
	default:
		return killRequest{}, false
	}
	if k.restart {
		k.message += ", will be restarted"
	}
	return k, true
}

// initContainers adds the actions of init containers and reports whether the pod is initialized. It
// iterates backward: the last started init container shows the progress of the pod.
func (a *actions) initContainers(pod *v1.Pod, views map[string]view) (initialized bool) {
	specs := pod.Spec.InitContainers
	if len(specs) == 0 {
		return true
	}
	// As in kubelet 1.37, a regular container counts if it was ever started.
	initialized = slices.ContainsFunc(pod.Spec.Containers, func(c v1.Container) bool { return views[c.Name].state != absent })
	past := initialized // a later container was started
	var starts []int
	for i, c := range slices.Backward(specs) {
		sidecar, v := declared.IsSidecar(&c), views[c.Name]
		switch {
		case v.state == absent && past && sidecar:
			starts = append(starts, i)
			continue
		case v.state == absent, past && !sidecar:
			continue
		}
		done, again := a.initContainer(&specs[i], v, pod)
		if a.killPod {
			a.kill = nil
			return false
		}
		switch {
		case done && i == len(specs)-1:
			initialized = true
		case done && !past:
			starts = append(starts, i+1)
		}
		if again {
			starts = append(starts, i)
		}
		past = true
	}
	if !past {
		starts = append(starts, 0)
	}
	for _, i := range slices.Backward(starts) {
		a.start = append(a.start, &specs[i])
	}
	return initialized
}

// initContainer adds the actions of an init container that was started. done reports whether the
// next one may start, and again whether this one must be restarted.
func (a *actions) initContainer(c *v1.Container, v view, pod *v1.Pod) (done, again bool) {
	switch {
	case declared.IsSidecar(c) && v.state == running:
		return a.sidecar(c, v)
	case declared.IsSidecar(c):
		return false, true
	case v.state == running:
		return false, false
	case v.exitCode == 0 && !v.again:
		return true, false
	case v.restarts(c, pod):
		return false, true
	default:
		a.killPod = true
		return false, false
	}
}

// sidecar adds the actions of a running sidecar. A failed probe restarts it regardless of the pod's restart
// policy. Its liveness probe does not delay the next container.
func (a *actions) sidecar(c *v1.Container, v view) (started, again bool) {
	kill := func(cause killCause, what string) {
		if !v.stopping {
			again = true
			a.kill = append(a.kill, killRequest{container: c, message: fmt.Sprintf("Init container %s %s", c.Name, what), cause: cause, restart: true})
		}
	}
	switch {
	case v.external:
		if v.changed { // even if its startup probe has not succeeded, since it may fail forever
			kill(causeChanged, "definition changed")
		}
		return !v.hasStartup || v.startup.equals(results.Success), again
	case v.hasStartup && !v.startup.equals(results.Success):
		if v.startup.equals(results.Failure) {
			kill(causeStartup, "failed startup probe")
		}
		return false, again
	case v.changed:
		kill(causeChanged, "definition changed")
	case v.liveness.equals(results.Failure):
		kill(causeLiveness, "failed liveness probe")
	}
	return true, again
}
