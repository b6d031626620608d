package local

import (
	"cmp"
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/pods/local/internal/process"
	"github.com/daeace23/prober/probe"
)

// minGrace is the minimum time between SIGTERM and SIGKILL, as in the kubelet.
const minGrace = 2 * time.Second

// stopping is a kill in progress.
type stopping struct {
	cancel context.CancelFunc
	whole  bool // the whole pod is being ended
}

// gracePeriod returns the grace period of a container that is killed for cause. The grace period of the
// deletion takes precedence over the failed probe's, which takes precedence over the pod's.
func gracePeriod(pod *v1.Pod, probes *podProbes, cause killCause) time.Duration {
	var ofProbe *int64
	switch cause {
	case causeLiveness:
		ofProbe = probes.grace[probe.Liveness]
	case causeStartup:
		ofProbe = probes.grace[probe.Startup]
	}
	seconds := int64(minGrace / time.Second)
	switch {
	case pod.DeletionGracePeriodSeconds != nil:
		seconds = *pod.DeletionGracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds == nil:
	case ofProbe != nil:
		seconds = *ofProbe
	default:
		seconds = *pod.Spec.TerminationGracePeriodSeconds
	}
	return pace.Seconds(seconds)
}

// end ends the containers of the pod, and reports whether all have ended.
func (p *pod) end() bool {
	p.mu.Lock()
	begun := p.stopped
	p.stopped = true
	p.mu.Unlock()
	if !begun {
		p.owner.manager.StopLivenessAndStartup(p.current())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopAllLocked() == 0
}

// stopAllLocked ends all containers and returns how many still run. Sidecars end after
// the regular containers, in reverse order.
func (p *pod) stopAllLocked() (left int) {
	var before []*process.Process // the next sidecar waits for their end
	stop := func(c *container, after []*process.Process) {
		switch {
		case c == nil || !c.running():
			return
		case c.stopping == nil || !c.stopping.whole:
			c.again = false
			p.stopLocked(c, killRequest{whole: true}, after)
		}
		if !c.running() {
			return
		}
		left++
		before = append(before[:len(before):len(before)], c.process)
	}
	for i := range p.spec.Spec.Containers {
		stop(p.containerLocked(p.spec.Spec.Containers[i].Name), nil)
	}
	for i := len(p.spec.Spec.InitContainers) - 1; i >= 0; i-- {
		stop(p.containerLocked(p.spec.Spec.InitContainers[i].Name), before)
	}
	desired := containerNames(p.spec)
	for _, c := range p.containers {
		if !desired.Has(c.name) {
			stop(c, nil)
		}
	}
	return left
}

// stopLocked begins to kill a container. It replaces a kill in progress. The SIGTERM waits for the
// end of the processes in after.
func (p *pod) stopLocked(c *container, k killRequest, after []*process.Process) {
	if c.process == nil {
		c.finish(process.Exit{At: time.Now()}, "")
		p.sync()
		return
	}
	if c.stopping != nil {
		c.stopping.cancel()
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.stopping = &stopping{cancel: cancel, whole: k.whole}
	s := stopRequest{
		container: c, spec: c.spec, process: c.process, after: after,
		message: cmp.Or(k.message, "Stopping container "+c.name),
		grace:   gracePeriod(p.spec, &c.probes, k.cause),
		preStop: c.spec.Lifecycle != nil && c.spec.Lifecycle.PreStop != nil && !c.preStopped,
	}
	p.jobs.Go(func() { p.stop(ctx, s) })
}

// stopRequest describes the kill of one container.
type stopRequest struct {
	container *container
	spec      *v1.Container
	process   *process.Process
	after     []*process.Process
	message   string
	grace     time.Duration
	preStop   bool
}

// stop kills a container with preStop hook, SIGTERM and SIGKILL. It returns early when ctx ends.
func (p *pod) stop(ctx context.Context, s stopRequest) {
	p.event(s.container, v1.EventTypeNormal, eventKilling, s.message)
	deadline := time.Now().Add(s.grace)
	if s.preStop && s.grace > 0 {
		p.preStop(ctx, s)
		p.preStopped(ctx, s)
	}
	for _, other := range s.after {
		pace.Wait(ctx, other.Exited(), time.Until(deadline))
	}
	if ctx.Err() != nil {
		return
	}
	s.process.Terminate()
	pace.Wait(ctx, s.process.Exited(), max(time.Until(deadline), minGrace))
	if ctx.Err() == nil {
		s.process.Kill() // does nothing if the container has ended
	}
}

// preStop runs the preStop hook, for at most the grace period.
func (p *pod) preStop(ctx context.Context, s stopRequest) {
	ctx, cancel := context.WithTimeout(ctx, s.grace)
	defer cancel()
	go func() { // the hook ends with the container
		pace.Wait(ctx, s.process.Exited(), s.grace)
		cancel()
	}()
	err := p.hook(ctx, s.container, s.spec, s.spec.Lifecycle.PreStop)
	if err != nil && ctx.Err() == nil {
		p.event(s.container, v1.EventTypeWarning, eventPreStop, "PreStopHook failed")
	}
}

// preStopped records that the preStop hook has ended, unless a later kill has interrupted it. Then it runs
// again for that kill.
func (p *pod) preStopped(ctx context.Context, s stopRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() == nil && s.container.process == s.process {
		s.container.preStopped = true
	}
}

// killIfAsked kills all containers of the pod after a call of kill, without hooks and grace periods.
func (p *pod) killIfAsked() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.killing {
		return
	}
	p.killing = false
	for _, c := range p.containers {
		if c.stopping != nil {
			c.stopping.cancel()
		}
		if c.running() && c.process != nil {
			c.process.Kill()
		}
	}
}
