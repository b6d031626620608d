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
func (p *Pods) guardLocked(pod *v1.Pod) {
	if p.guard != nil || p.unguarded || !p.needsGuard(pod) {
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

func (p *Pods) needsGuard(pod *v1.Pod) bool {
	configs, _ := manager.ProbesOf(pod)
	if p.cfg.Marked != nil && slices.ContainsFunc(configs, func(c manager.ProbeConfig) bool { return p.cfg.Marked(c.Handler) }) {
		return true
	}
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c v1.Container) bool {
		return len(c.Command) == 0 && slices.ContainsFunc(configs, func(p manager.ProbeConfig) bool {
			return p.Container == c.Name && p.Handler == "exec"
		})
	})
}
