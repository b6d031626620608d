package kube

import (
	"iter"
	"slices"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/pods/kube/liveness"
	"github.com/daeace23/prober/probe"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// publish computes the status of a pod from the kubelet, the runtime and the decided results of its
// probes, and publishes it.
func (s *Source) publish(uid types.UID) {
	s.mu.Lock()
	p := s.pods[uid]
	if p == nil || p.gone || p.plan == nil || p.changing() { // the attempt queues it at its end
		s.mu.Unlock()
		return
	}
	latest, prior, shown, seen := p.latest, p.prior, p.shown, p.changes
	s.mu.Unlock()
	status := s.statusOf(latest)
	kubelet := startedByKubelet(latest, &status)
	each(&status, func(c *v1.ContainerStatus) { c.Ready = false }) // UpdatePodStatus may leave Ready as it is
	s.manager.UpdatePodStatus(prior, &status)
	each(&status, func(c *v1.ContainerStatus) {
		if !kubelet[c.Name] && c.Started != nil && *c.Started { // the kubelet's startup probe has not succeeded
			c.Started, c.Ready = new(false), false
		}
	})
	s.mu.Lock()
	p.ids = idsOf(&status)
	s.mu.Unlock()
	if s.changed(p, seen) {
		return // a container may be ready only because its probe is missing
	}
	s.store.SetPodStatus(shown, status)
	if !s.has(uid, p) { // removed meanwhile
		s.store.RemovePod(uid)
	}
	s.toReport.Put(uid)
}

// statusOf returns the status of a pod from the kubelet and the runtime. It omits containers that belong to another
// pod according to the runtime. While the address of the pod is unknown, it omits running containers: a probe
// without an address would connect to the network of the agent.
func (s *Source) statusOf(latest *v1.Pod) v1.PodStatus {
	status := ownStatus(latest)
	without := func(wrong func(v1.ContainerStatus) bool) {
		status.ContainerStatuses = slices.DeleteFunc(status.ContainerStatuses, wrong)
		status.InitContainerStatuses = slices.DeleteFunc(status.InitContainerStatuses, wrong)
	}
	if runtime := s.cfg.Runtime; runtime != nil {
		without(func(c v1.ContainerStatus) bool { // results are kept by container ID, and would count for both pods
			owner, ok := runtime.Owner(c.ContainerID)
			return ok && owner != latest.UID
		})
		runtime.Overlay(latest, &status)
	}
	if status.PodIP == "" {
		without(func(c v1.ContainerStatus) bool { return c.State.Running != nil })
	}
	return status
}

// has reports whether p was not removed.
func (s *Source) has(uid types.UID, p *pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[uid] == p
}

// firstStatus returns the status of a pod for the first ticks of its probes. Without it these ticks would
// make no attempts. Started comes from the kubelet, unless a startup probe decides it, and Ready from an
// earlier agent.
func (s *Source) firstStatus(latest, prior *v1.Pod, next *plan) v1.PodStatus {
	status := s.statusOf(latest)
	kubelet := startedByKubelet(latest, &status)
	seeds := make(map[string]*v1.ContainerStatus)
	each(&prior.Status, func(c *v1.ContainerStatus) { seeds[c.ContainerID] = c })
	each(&status, func(c *v1.ContainerStatus) {
		seed := seeds[c.ContainerID]
		held := len(next.errs) > 0 || next.startup[c.Name]
		c.Started = new(c.State.Running != nil && kubelet[c.Name] && (!held || seed != nil))
		c.Ready = seed != nil && seed.Ready && *c.Started
	})
	return status
}

// idsOf returns the names of the containers of a status, by ID.
func idsOf(status *v1.PodStatus) map[string]string {
	ids := make(map[string]string)
	each(status, func(c *v1.ContainerStatus) {
		if c.ContainerID != "" {
			ids[c.ContainerID] = c.Name
		}
	})
	return ids
}

// each calls do with the status of each container.
func each(status *v1.PodStatus, do func(*v1.ContainerStatus)) {
	for _, list := range [...][]v1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		for i := range list {
			do(&list[i])
		}
	}
}

// ownStatus returns a copy of the status of a pod whose containers may be changed. It omits addresses that no pod
// can have: whoever may write statuses must not make the agent connect to other addresses.
func ownStatus(pod *v1.Pod) v1.PodStatus {
	status := pod.Status
	status.ContainerStatuses = slices.Clone(status.ContainerStatuses)
	status.InitContainerStatuses = slices.Clone(status.InitContainerStatuses)
	status.Conditions = slices.Clone(status.Conditions)
	status.PodIPs = slices.DeleteFunc(slices.Clone(status.PodIPs), func(ip v1.PodIP) bool { return !isOfPod(ip.IP) })
	if status.PodIP != "" && !isOfPod(status.PodIP) {
		status.PodIP = ""
	}
	return status
}

// startedByKubelet reports, by name, whether the kubelet considers a container started: it has no startup
// probe in its spec, or the kubelet's status has Started for the same container ID.
func startedByKubelet(latest *v1.Pod, status *v1.PodStatus) map[string]bool {
	told := make(map[string]bool)
	each(&latest.Status, func(c *v1.ContainerStatus) {
		if c.Started != nil && *c.Started {
			told[c.ContainerID] = true
		}
	})
	probed := make(map[string]bool)
	for _, list := range [...][]v1.Container{latest.Spec.Containers, latest.Spec.InitContainers} {
		for i := range list {
			probed[list[i].Name] = list[i].StartupProbe != nil
		}
	}
	started := make(map[string]bool)
	each(status, func(c *v1.ContainerStatus) { started[c.Name] = !probed[c.Name] || told[c.ContainerID] })
	return started
}

// runtimeChanged is called when the containers of a pod have changed in the runtime.
func (s *Source) runtimeChanged(uid types.UID) {
	s.mu.Lock()
	p := s.pods[uid]
	inPod := p != nil && (p.plan == nil || p.plan.inPod)
	s.mu.Unlock()
	if p == nil {
		return
	}
	s.toPublish.Put(uid)
	if inPod {
		s.toApply.Put(uid) // it may have a new sandbox
	}
}

// followResults queues the pods whose decided results change, since statuses depend on them. It passes
// failures of liveness and startup probes to the actor.
func (s *Source) followResults(updates iter.Seq[results.Update]) {
	for u := range updates {
		uid := types.UID(u.PodUID)
		s.toPublish.Put(uid)
		s.toReport.Put(uid)
		if !u.Removed && u.Result == results.Failure && u.Kind != probe.Readiness && attempted(u.Reason) {
			s.failed(uid, &u)
		}
	}
}

// attempted reports whether a result with the reason r was decided by an attempt of this agent.
func attempted(r results.Reason) bool {
	switch r {
	case results.Initial, results.Restored, results.NotRunning, results.Terminating, results.Forced:
		return false
	}
	return true
}

// failedAlready passes the present failures of a pod to the actor, after a change of its mode, or of its probes
// if one failed meanwhile.
func (s *Source) failedAlready(uid types.UID) {
	status, _ := s.store.PodStatus(uid)
	each(&status, func(c *v1.ContainerStatus) {
		for _, kind := range [...]probe.Kind{probe.Liveness, probe.Startup} {
			if !s.failing(uid, c.Name, kind) {
				continue
			}
			u := results.Update{ContainerID: c.ContainerID, Kind: kind, Result: results.Failure}
			u.Container = c.Name
			s.failed(uid, &u)
		}
	})
}

// failed passes a failure to the actor. While the probes of the pod are changed, it only notes that there is
// one: then Source.applied calls failedAlready after the change.
func (s *Source) failed(uid types.UID, u *results.Update) {
	s.mu.Lock()
	p := s.pods[uid]
	if p == nil || p.gone {
		s.mu.Unlock()
		return
	}
	if p.plan == nil || p.changing() { // applied calls failedAlready, with the new plan
		p.missedFailure = true
		s.mu.Unlock()
		return
	}
	plan := p.plan
	s.mu.Unlock()
	pod := s.current(uid)
	if pod == nil {
		return
	}
	s.actor.Failed(liveness.Failure{
		Pod: pod, Container: u.Container, ContainerID: u.ContainerID, Kind: u.Kind, Mode: plan.mode,
		Grace: plan.grace[probeKey{u.Container, u.Kind}], Period: plan.period[probeKey{u.Container, u.Kind}], Text: u.Output,
	})
}
