package local

import (
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/pods/local/internal/process"
)

// startGuard starts the guard of the agent if a pod needs it and no guard runs. The guard is a
// shim without a container. When the agent is killed, the guard kills its exec probes, its hooks
// and the programs of plugins, with everything that they have started. One guard serves all pods, since
// it scans every process of the host. The caller holds p.applying.
func (p *Pods) startGuard(all ...*pod) {
	if p.guard != nil && !p.guard.HasExited() || !slices.ContainsFunc(all, (*pod).needsGuard) {
		return
	}
	guard, err := process.Start(process.Launch{Mark: p.host.Mark}, &process.Output{W: p.host.Output, Prefix: "guard: "}, p.ending)
	switch {
	case err == nil:
		p.guard = guard
	case !errors.Is(err, errors.ErrUnsupported):
		p.host.Logger.Warn("no guard: exec probes in progress will outlive an agent that is killed", "err", err)
	}
}

// needsGuard reports whether a probe or a hook of the pod starts processes outside its containers.
// The result may change while the pod stays the same: a plugin may become a program.
func (p *pod) needsGuard() bool {
	var handlers []string
	p.mu.Lock()
	for _, c := range p.containers {
		handlers = append(handlers, c.probes.handlers...)
		if h := c.spec.Lifecycle; h != nil && (runsCommand(h.PostStart) || runsCommand(h.PreStop)) {
			handlers = append(handlers, "exec")
		}
	}
	p.mu.Unlock()
	return slices.ContainsFunc(handlers, func(handler string) bool {
		return handler == "exec" || p.owner.host.RunsPrograms(handler)
	})
}

// runsCommand reports whether a hook, which may be nil, runs a command.
func runsCommand(h *v1.LifecycleHandler) bool { return h != nil && h.Exec != nil }

// endGuard ends the guard, after the last Apply.
func (p *Pods) endGuard() {
	p.applying.Lock()
	defer p.applying.Unlock()
	if p.guard != nil {
		p.guard.Kill()
		<-p.guard.Exited()
	}
}
