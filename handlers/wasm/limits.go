package wasm

import (
	"fmt"

	"github.com/daeace23/prober/handlers/wasm/internal/binary"
	"github.com/daeace23/prober/handlers/wasm/internal/sched"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// hit notes that the call has come to a limit, which counts once a call: a guest may
// try as often as it likes. which is an index of [plugin.LimitNames].
func (c *call) hit(which int) {
	if !c.hits.Add(which, &c.plugin.hits) {
		return
	}
	if c.req != nil && c.req.Trace != nil {
		c.trace(probe.TraceEvent{Type: probe.TraceLog, Name: "host", Detail: fmt.Sprintf("the limit %s is used up", plugin.LimitNames[which])})
	}
}

// resolveLimits says what the plugin may take: what manifest and operator say of it,
// within what the host allows any plugin.
func (p *Handler) resolveLimits(operator plugin.Limits) {
	p.limits = plugin.Resolve(p.manifest.Limits, operator)
	p.instances = sched.NewQuota(uint64(p.limits.Instances))
	if cap := p.host.cfg.Memory; cap > 0 {
		p.limits.Memory = int(min(uint64(p.limits.Memory), cap))
	}
	p.limits.Memory &^= binary.PageSize - 1
	if cap := p.host.cfg.TableEntries; cap > 0 {
		p.limits.TableEntries = int(min(uint32(p.limits.TableEntries), cap))
	}
}

// limit is the error of a run that has used up what it may have, or that does what no
// run may.
type limit struct {
	which int // index of [plugin.LimitNames]; 0: of what nobody can set
	errno abi.Errno
	text  string
}

func (e *limit) Error() string { return e.text }
