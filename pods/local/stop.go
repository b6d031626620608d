package local

import (
	"cmp"
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/pods/local/internal/process"
	"github.com/daeace23/prober/probe"
)

// minGrace is the least time between SIGTERM and SIGKILL, as in the kubelet.
const minGrace = 2 * time.Second

// stopping is a kill under way.
type stopping struct {
	cancel context.CancelFunc
	whole  bool // the whole pod is being ended
}

// gracePeriod returns how long a container that is killed for cause may take: the
// deletion's own period, else that of the probe which kills it, else the pod's.
func gracePeriod(pod *v1.Pod, probes map[probe.Kind]*int64, cause killCause) time.Duration {
	seconds := int64(minGrace / time.Second)
	switch kind, ok := cause.kind(); {
	case pod.DeletionGracePeriodSeconds != nil:
		seconds = *pod.DeletionGracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds == nil:
	case ok && probes[kind] != nil:
		seconds = *probes[kind]
	default:
		seconds = *pod.Spec.TerminationGracePeriodSeconds
	}
	return time.Duration(seconds) * time.Second
}

// end begins to end the pod, or goes on, and reports whether nothing of it runs.
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
	var before []*process.Process // what a sidecar waits for
	stop := func(c *container, order []*process.Process) {
		switch {
		case c == nil || !c.running():
			return
		case c.stopping == nil || !c.stopping.whole:
			c.again = false
			p.stopLocked(c, killing{whole: true}, order)
		}
		if !c.running() {
			return
		}
		left++
		before = append(before[:len(before):len(before)], c.process)
	}
	for i := range p.spec.Spec.Containers {
		stop(p.containers[p.spec.Spec.Containers[i].Name], nil)
	}
	for i := len(p.spec.Spec.InitContainers) - 1; i >= 0; i-- {
		stop(p.containers[p.spec.Spec.InitContainers[i].Name], before)
	}
	for _, c := range p.containers { // those that the spec no longer has
		if !p.hasLocked(c) {
			stop(c, nil)
		}
	}
	return left
}

// hasLocked reports whether the spec has c.
func (p *pod) hasLocked(c *container) bool {
	for _, list := range [...][]v1.Container{p.spec.Spec.InitContainers, p.spec.Spec.Containers} {
		for i := range list {
			if list[i].Name == c.name {
				return true
			}
		}
	}
	return false
}

// stopLocked begins to kill a container, instead of a kill that is under way. after
// are processes whose end it waits for before the SIGTERM.
func (p *pod) stopLocked(c *container, k killing, after []*process.Process) {
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
	s := stop{
		container: c, spec: c.spec, process: c.process, after: after,
		message: cmp.Or(k.message, "Stopping container "+c.name),
		grace:   gracePeriod(p.spec, p.probes[c.name].grace, k.cause),
		preStop: c.spec.Lifecycle != nil && c.spec.Lifecycle.PreStop != nil && !c.prestop,
	}
	p.jobs.Go(func() { p.stop(ctx, s) })
}

// stop is what the kill of one container needs to know.
type stop struct {
	container *container
	spec      *v1.Container
	process   *process.Process
	after     []*process.Process
	message   string
	grace     time.Duration
	preStop   bool
}

// stop kills a container: preStop hook, SIGTERM, SIGKILL. It gives up when ctx ends.
func (p *pod) stop(ctx context.Context, s stop) {
	p.event(s.container, v1.EventTypeNormal, eventKilling, s.message)
	deadline := time.Now().Add(s.grace)
	if s.preStop && s.grace > 0 {
		p.preStop(ctx, s)
		p.preStopped(ctx, s)
	}
	for _, other := range s.after {
		wait(ctx, other.Exited(), time.Until(deadline))
	}
	if ctx.Err() != nil {
		return
	}
	s.process.Terminate()
	wait(ctx, s.process.Exited(), max(time.Until(deadline), minGrace))
	if ctx.Err() == nil { // to a process that has ended it means nothing
		s.process.Kill()
	}
}

// preStop runs the preStop hook, for no longer than the grace period.
func (p *pod) preStop(ctx context.Context, s stop) {
	ctx, cancel := context.WithTimeout(ctx, s.grace)
	defer cancel()
	go func() { // a container that has ended is not waited for
		wait(ctx, s.process.Exited(), s.grace)
		cancel()
	}()
	err := p.hook(ctx, s.container, s.spec, s.spec.Lifecycle.PreStop)
	if err != nil && ctx.Err() == nil {
		p.event(s.container, v1.EventTypeWarning, eventPreStop, "PreStopHook failed")
	}
}

// preStopped notes that the preStop hook has had its time. One that a later kill has cut
// off is run again by that: the end of a pod takes no hook from a container that a probe
// was about to have restarted.
func (p *pod) preStopped(ctx context.Context, s stop) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() == nil && s.container.process == s.process {
		s.container.prestop = true
	}
}

// wait waits until done is closed, at most for a time and no longer than ctx.
func wait(ctx context.Context, done <-chan struct{}, atMost time.Duration) {
	timer := time.NewTimer(max(atMost, 0))
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// killNow kills what is left of the pod without further ado.
func (p *pod) killNow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.containers {
		if c.stopping != nil {
			c.stopping.cancel()
		}
		if c.running() && c.process != nil {
			c.process.Kill()
		}
	}
}
