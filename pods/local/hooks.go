package local

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/pods/internal/hook"
)

// hook runs a lifecycle hook of a container.
func (p *pod) hook(ctx context.Context, c *container, spec *v1.Container, h *v1.LifecycleHandler) error {
	p.mu.Lock()
	id, ip := c.id, p.ip
	p.mu.Unlock()
	hooks := hook.Hooks{Container: spec, IP: ip, Exec: func(ctx context.Context, command []string) error {
		_, err := p.owner.RunInContainer(ctx, id, command, 0)
		return err
	}}
	return hooks.Run(ctx, h)
}
