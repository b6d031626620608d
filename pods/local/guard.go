package local

import (
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/manager"
)

// guardLocked starts the agent's guard when pod needs it: a shim without a container,
// which ends the commands of exec probes of external targets, and the programs of marked
// handlers with all that they have started, when the agent is killed. The exec probes of
// other containers are looked after by the containers' own shims.
func (p *Pods) guardLocked(n needs) {
	if p.guard != nil || p.unguarded || !p.needsGuard(n) {
		return
	}
	guard, err := startProcess(p.shim, launch{Mark: p.mark}, &lineWriter{w: &p.out, prefix: "guard: "})
	if err != nil {
		p.unguarded = errors.Is(err, ErrNeedsLinux) // there is no use in trying again
		p.cfg.Logger.Warn("no guard: exec probes under way will outlive an agent that is killed", "err", err)
		return
	}
	p.guard = guard
}

func (p *Pods) endGuard() {
	p.mu.Lock()
	guard := p.guard
	p.mu.Unlock()
	if guard != nil {
		guard.kill()
		<-guard.exited
	}
}

// needs is what a pod needs the guard for, read from its spec once.
type needs struct {
	handlers []string // of its probes
	exec     bool     // an external target has an exec probe
}

func needsOf(pod *v1.Pod) (n needs) {
	configs, _ := manager.ProbesOf(pod)
	for _, c := range configs {
		n.handlers = append(n.handlers, c.Handler)
	}
	n.exec = slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c v1.Container) bool {
		return isExternal(&c) && slices.ContainsFunc(configs, func(p manager.ProbeConfig) bool {
			return p.Container == c.Name && p.Handler == "exec"
		})
	})
	return n
}

// needsGuard may change its answer while the pod is the same: a plugin may be a program
// from now on.
func (p *Pods) needsGuard(n needs) bool {
	return n.exec || p.cfg.Marked != nil && slices.ContainsFunc(n.handlers, p.cfg.Marked)
}
