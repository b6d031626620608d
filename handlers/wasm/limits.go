package wasm

import (
	"github.com/daeace23/prober/handlers/wasm/internal/binary"
	"github.com/daeace23/prober/handlers/wasm/internal/sched"
	"github.com/daeace23/prober/plugin"
)

// resolveLimits says what the plugin may take: what manifest and operator say of it,
// within what the host allows any plugin.
func (p *Handler) resolveLimits(operator plugin.Limits) {
	p.guest.Limits = plugin.Resolve(p.guest.Manifest.Limits, operator)
	p.instances = sched.NewQuota(uint64(p.guest.Limits.Instances))
	if cap := p.host.cfg.Memory; cap > 0 {
		p.guest.Limits.Memory = int(min(uint64(p.guest.Limits.Memory), cap))
	}
	p.guest.Limits.Memory &^= binary.PageSize - 1
	if cap := p.host.cfg.TableEntries; cap > 0 {
		p.guest.Limits.TableEntries = int(min(uint32(p.guest.Limits.TableEntries), cap))
	}
}
