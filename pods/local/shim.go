package local

import (
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/pods/local/internal/process"
)

// guardLocked starts the agent's guard when pod needs it: a shim without a container,
// which ends the commands of exec probes of external targets, and the programs of marked
// handlers with all that they have started, when the agent is killed. The exec probes of
// other containers are looked after by the containers' own shims.
func (p *Pods) guardLocked(n needs) {
	if p.guard != nil || p.unguarded || !p.needsGuard(n) {
		return
	}
	guard, err := process.Start(p.shim, process.Launch{Mark: p.mark}, &process.Output{W: &p.out, Prefix: "guard: "})
	if err != nil {
		p.unguarded = errors.Is(err, errors.ErrUnsupported) // there is no use in trying again
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
		guard.Kill()
		<-guard.Exited()
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

// IsShim reports whether args (os.Args) are those of a shim. The program must then call
// [ShimMain] and nothing else.
func IsShim(args []string) bool { return process.IsShim(args) }

// ShimMain runs one container and returns the exit code of the program. It returns when the
// container has ended, which it has at the latest when the agent dies.
func ShimMain() int { return process.ShimMain() }
