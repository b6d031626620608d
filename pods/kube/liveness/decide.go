package liveness

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/internal/pace"
)

// step is the next step for a failure.
type step uint8

const (
	wait step = iota // decide again, at decision.until at the latest
	drop             // forget the failure
	act
)

// minGrace is the minimum time between SIGTERM and SIGKILL, as in the kubelet.
const minGrace = 2 * time.Second

// situation is the input of a decision.
type situation struct {
	failure  *Failure
	restarts int32   // restart count of the failed container; -1: not known
	acted    bool    // this failure has led to an action
	pod      *v1.Pod // present state; nil: it is gone
	failing  bool    // the probe still fails
	held     bool    // the probe is paused, or the mode of the pod is without actions

	open      string // why the breaker is open
	possible  bool   // the agent can carry out the mode
	owned     bool   // the container belongs to the pod in the runtime
	onFailure OnFailurePolicy

	// No action is taken before these times.
	settled  time.Time
	blocked  time.Time // by a PodDisruptionBudget, or another pod of the workload
	backoff  time.Time
	workload time.Time // budget of the workload
	node     time.Time // budget of the node

	noSlot bool // too many actions are in progress
	busy   bool // an action on this pod is in progress
}

// decision is the result of decide.
type decision struct {
	do     step
	reason string // of Counts.Withheld; "": nothing is withheld, or it is not counted
	text   string // cause, for an event
	until  time.Time
	order  order // if do is act
}

// order says how a container is stopped.
type order struct {
	grace   time.Duration
	kill    bool // at once: no preStop hook, no grace period
	returns bool // the kubelet starts it again
}

// decide returns the next step for a failure. Checks that end the failure come first. The guards come last,
// since they only delay an action.
func decide(s *situation, now time.Time) decision {
	c, lost := s.subject()
	switch {
	case lost != "" && s.acted:
		return decision{do: drop}
	case lost != "":
		return decision{do: drop, reason: WithheldGone, text: lost}
	case !s.failing:
		return decision{do: drop, text: "the probe does not fail any more"}
	case s.held:
		return decision{do: wait, until: now.Add(recheck)}
	case !s.possible && s.failure.Mode == Restart:
		return decision{do: drop, reason: WithheldUnavailable, text: "the agent has no access to the container runtime"}
	case !s.possible:
		return decision{do: drop, reason: WithheldUnavailable, text: "the agent cannot evict pods"}
	}
	d := decision{do: act}
	if s.failure.Mode == Restart {
		if d.order, d.text = s.end(c); d.text != "" {
			return decision{do: drop, reason: WithheldOnFailure, text: d.text}
		}
	}
	switch {
	case now.Before(s.settled):
		return decision{do: wait, until: s.settled}
	case s.open != "":
		return decision{do: wait, reason: WithheldBreaker, text: "the breaker is open (" + s.open + ")", until: now.Add(recheck)}
	case s.failure.Mode == Restart && !s.owned:
		return decision{do: wait, reason: WithheldUnavailable, text: "the container runtime does not have it as a container of this pod", until: now.Add(recheck)}
	case now.Before(s.blocked):
		return decision{do: wait, until: s.blocked}
	case now.Before(s.backoff):
		return decision{do: wait, reason: WithheldBackoff, text: "the back-off of this container", until: s.backoff}
	case now.Before(s.workload) && !s.workload.Before(s.node):
		return decision{do: wait, reason: WithheldBudget, text: "the budget of its workload is used up", until: s.workload}
	case now.Before(s.node):
		return decision{do: wait, reason: WithheldBudget, text: "the budget of the node is used up", until: s.node}
	case s.noSlot || s.busy:
		return decision{do: wait, until: now.Add(time.Second)}
	}
	return d
}

// subject returns the failed container, or why it does not exist any more. A container that has replaced it must
// not be stopped.
func (s *situation) subject() (c *v1.Container, lost string) {
	f := s.failure
	if s.pod == nil || s.pod.UID != f.Pod.UID {
		return nil, "the pod is gone"
	}
	if s.pod.DeletionTimestamp != nil {
		return nil, "the pod is being deleted"
	}
	c, _ = containerNamed(&s.pod.Spec, f.Container)
	status := statusNamed(&s.pod.Status, f.Container)
	switch {
	case c == nil || status == nil:
		return nil, "the container is gone"
	case status.ContainerID != f.ContainerID, s.restarts >= 0 && status.RestartCount != s.restarts:
		return nil, "the container has been restarted"
	case status.State.Running == nil:
		return nil, "the container has ended"
	}
	return c, ""
}

// exitCodes are the usual exit codes of a container after SIGTERM.
var exitCodes = [...]int32{0, 1, 128 + 15, killed}

const killed = 128 + 9

// end returns how to stop the container, or why it must not be stopped.
func (s *situation) end(c *v1.Container) (o order, refused string) {
	o.grace = graceOf(s.pod, s.failure)
	if comesBack(c, s.pod, exitCodes[:]...) {
		o.returns = true
		return o, ""
	}
	afterKill := comesBack(c, s.pod, killed)
	switch {
	case s.onFailure == Kill && afterKill:
		return order{kill: true, returns: true}, ""
	case s.onFailure == Kill:
		return o, ""
	case afterKill:
		return o, "its restart policy does not start it again after each exit code, and it may exit with any after SIGTERM; onFailure: kill of the agent kills it instead"
	default:
		return o, "its restart policy does not start it again"
	}
}

// comesBack reports whether the kubelet restarts a container after each of the exit codes.
func comesBack(c *v1.Container, pod *v1.Pod, codes ...int32) bool {
	for _, code := range codes {
		if !manager.ContainerShouldRestart(c, &pod.Spec, code) {
			return false
		}
	}
	return true
}

// graceOf returns the grace period of a container as in the kubelet: the probe's, or else the pod's.
func graceOf(pod *v1.Pod, f *Failure) time.Duration {
	seconds := int64(minGrace / time.Second)
	switch {
	case pod.Spec.TerminationGracePeriodSeconds == nil:
	case f.Grace != nil:
		seconds = *f.Grace
	default:
		seconds = *pod.Spec.TerminationGracePeriodSeconds
	}
	return pace.Seconds(seconds)
}

// containerNamed returns a container of a pod by name, and whether it is an init container; nil if there is none.
func containerNamed(spec *v1.PodSpec, name string) (c *v1.Container, init bool) {
	for i := range spec.Containers {
		if spec.Containers[i].Name == name {
			return &spec.Containers[i], false
		}
	}
	for i := range spec.InitContainers {
		if spec.InitContainers[i].Name == name {
			return &spec.InitContainers[i], true
		}
	}
	return nil, false
}

func statusNamed(status *v1.PodStatus, name string) *v1.ContainerStatus {
	for _, list := range [...][]v1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// message returns the text of the event for an action. For restarts it equals the kubelet's text.
func (f *Failure) message(pod *v1.Pod, o order) string {
	name := "Container"
	if _, init := containerNamed(&pod.Spec, f.Container); init {
		name, o.returns = "Init container", false // the kubelet does not say so
	}
	text := fmt.Sprintf("%s %s failed %s probe", name, f.Container, f.Kind)
	switch {
	case f.Mode == Evict:
		text += ", the pod is evicted"
	case o.returns:
		text += ", will be restarted"
	}
	return text
}
