package liveness

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/pods/internal/hook"
)

// hook runs the preStop hook of a container, for at most the grace period. HTTP hooks may only reach addresses of
// the pod: an agent in the network of the node reaches addresses that the author of the pod cannot reach.
func (a *Actor) hook(ctx context.Context, t *task, c *v1.Container) error {
	ctx, cancel := context.WithTimeout(ctx, t.order.grace)
	defer cancel()
	hooks := hook.Hooks{Container: c, IP: t.pod.Status.PodIP, Hosts: []string{t.pod.Status.PodIP}}
	for _, ip := range t.pod.Status.PodIPs {
		hooks.Hosts = append(hooks.Hosts, ip.IP)
	}
	if a.cfg.Exec != nil {
		hooks.Exec = func(ctx context.Context, command []string) error {
			_, err := a.cfg.Exec(ctx, t.failure.ContainerID, command, t.order.grace)
			return err
		}
	}
	return hooks.Run(ctx, c.Lifecycle.PreStop)
}
