package wasm

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/daeace23/prober/handlers/internal/attempt"
	"github.com/daeace23/prober/handlers/wasm/internal/binary"
	"github.com/daeace23/prober/handlers/wasm/internal/guest"
	"github.com/daeace23/prober/handlers/wasm/internal/sched"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// ErrNoInstance means that no instance of the plugin could be had: the memory budget
// or the plugin's limit is used up by attempts in flight, or the deadline came before a
// slot was free, or when most of the time had gone by until one was. It matches
// [probe.ErrNoSlot].
var ErrNoInstance error = &attempt.Skipped{Err: errors.New("no instance of the plugin is free")}

// Handler is a loaded plugin. It is safe for concurrent use.
type Handler struct {
	guest     guest.Plugin
	host      *Host
	module    *binary.Module
	runtime   wazero.Runtime
	compiled  wazero.CompiledModule
	instances *sched.Quota // of limits.Instances
	image     *image       // of the first instance; nil where the module is volatile
	size0     int          // bytes of memory of the first instance, when it had started
	reset     bool         // instances are used again after a reset
	pooled    bool         // instances are used again as they are

	size atomic.Uint64 // see Stats.Size

	mu       sync.Mutex
	idle     []*instance // the one used last is at the end
	live     int         // instances, idle or not
	flying   sync.WaitGroup
	closed   bool
	evicting *time.Timer // closes what has been idle for long
	evictAt  time.Time   // when evicting fires
}

var _ probe.Preparer = (*Handler)(nil)

// Manifest returns the plugin's manifest, which must not be changed.
func (p *Handler) Manifest() *plugin.Manifest { return p.guest.Manifest }

// Digest returns the digest of the module's bytes, "sha256:…".
func (p *Handler) Digest() string { return p.guest.Digest }

// Stats is what a plugin takes and did.
type Stats struct {
	Idle   int    // instances that wait for a call
	Busy   int    // instances in a call, or whose guest has its grace after one
	Denied uint64 // dials that the grants did not cover, since the plugin was loaded
	Size   uint64 // bytes of linear memory of the guest that was called last
	// Limits is how often each limit was hit, since the plugin was loaded: in how many
	// attempts, or for Calls and Idle by how many instances. Limits that were not hit
	// are left out. Neither are those counted that show when a plugin is loaded, and
	// tables that a guest grows in vain, of which the runtime tells nobody.
	Limits map[plugin.LimitName]uint64
}

// Limits returns the limits in force.
func (p *Handler) Limits() plugin.Limits { return p.guest.Limits }

// Stats returns the figures of this moment.
func (p *Handler) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{Idle: len(p.idle), Busy: p.live - len(p.idle), Denied: p.guest.Denied.Load(), Size: p.size.Load(), Limits: p.guest.Hits.Counts()}
}

// Prepare implements [probe.Preparer]. It holds config against the manifest's
// schema, fills in the defaults, and asks the guest if it exports validate_config.
func (p *Handler) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	return p.PrepareContext(context.Background(), config, target)
}

// PrepareContext is Prepare that waits for the guest no longer than ctx lasts.
func (p *Handler) PrepareContext(ctx context.Context, config []byte, target probe.Target) (probe.Handler, error) {
	config, err := p.guest.Manifest.Config.Apply(config)
	if err != nil {
		return nil, err
	}
	b := &bound{plugin: p, config: config, store: new(attempt.Store)}
	if p.guest.Command || p.compiled.ExportedFunctions()[abi.ExportValidateConfig] == nil {
		return b, nil
	}
	ctx, cancel := p.host.cfg.Clock.WithTimeout(ctx, startTimeout) // that of Prepare has no end
	defer cancel()
	if err := b.validate(ctx, target); err != nil {
		return nil, err
	}
	return b, nil
}

// Probe implements [probe.Handler] for a plugin that needs no config.
func (p *Handler) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	config, err := p.guest.Manifest.Config.Apply(nil)
	if err != nil {
		return probe.Outcome{}, err
	}
	return (&bound{plugin: p, config: config, store: new(attempt.Store)}).Probe(ctx, req)
}

// Close waits for the attempts in flight and frees what the plugin holds.
func (p *Handler) Close() error {
	p.mu.Lock()
	already := p.closed
	p.closed = true
	if p.evicting != nil {
		p.evicting.Stop()
	}
	idle := p.idle
	p.idle, p.live = nil, p.live-len(idle)
	p.mu.Unlock()
	if already {
		return nil
	}
	p.host.remove(p)
	for _, in := range idle {
		in.close()
	}
	p.flying.Wait()
	return p.closeRuntime()
}

func (p *Handler) closeRuntime() error {
	if p.image != nil {
		p.image.Close()
		p.image = nil
	}
	if p.runtime == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	err := p.runtime.Close(ctx)
	if p.compiled != nil {
		err = errors.Join(err, p.compiled.Close(ctx))
	}
	return err
}

// take returns an instance that nobody else uses, a new one if need be, for a call
// that has its place.
func (p *Handler) take(c *call) (*instance, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, attempt.ErrClosed
	}
	p.flying.Add(1) // from here on Close waits, and the image stays
	p.mu.Unlock()
	if !c.admit() {
		p.flying.Done()
		return nil, ErrNoInstance
	}
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		in := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		in.memory.Hold(c.holds)
		c.holds(in.memory.Taken())
		return in, nil
	}
	if limit := p.guest.Limits.Instances; limit > 0 && p.live >= limit {
		p.mu.Unlock()
		p.flying.Done()
		c.leave()
		c.Hit(plugin.LimitInstances)
		return nil, ErrNoInstance
	}
	p.live++
	p.mu.Unlock()
	return p.newFor(c)
}

// newFor is newInstance for a call that take lets begin.
func (p *Handler) newFor(c *call) (in *instance, err error) {
	defer func() {
		if in == nil {
			p.gone()
			p.flying.Done()
			c.leave()
		}
	}()
	if in, err = p.newInstance(c.Context(), c); err != nil && c.Context().Err() == context.DeadlineExceeded {
		err = ErrNoInstance // the guest never got to see its target
	}
	return in, err
}

// back ends a take. Only an instance whose call ended normally is used again.
func (p *Handler) back(c *call, in *instance, normal bool) {
	defer p.flying.Done()
	defer c.leave()
	again := normal && (p.pooled || p.reset) && !in.worn()
	p.give(in, again && (p.pooled || in.restore(p.image)))
}

// maxReady is how many idle instances keep the pages that they wrote to, which makes their
// next call quicker. The one used last is used first, so the others hardly get to it.
const maxReady = 4

func (p *Handler) give(in *instance, keep bool) {
	in.memory.Hold(nil)
	p.mu.Lock()
	if keep && !p.closed && (p.reset || p.pooled) {
		in.idleSince = time.Now()
		p.idle = append(p.idle, in)
		if next := len(p.idle) - 1 - maxReady; next >= 0 && p.reset {
			p.idle[next].rest()
		}
		p.watchIdleLocked()
		p.mu.Unlock()
		return
	}
	p.live--
	p.mu.Unlock()
	in.look()
	in.close()
}

func (p *Handler) gone() {
	p.mu.Lock()
	p.live--
	p.mu.Unlock()
}

// idleSince is since when the instance is idle that has been so for longest; zero: there
// is none.
func (p *Handler) idleSince() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return time.Time{}
	}
	return p.idle[0].idleSince
}

// evictOne closes the instance that has been idle for longest, if there is one.
func (p *Handler) evictOne() {
	p.mu.Lock()
	if len(p.idle) == 0 {
		p.mu.Unlock()
		return
	}
	in := p.idle[0]
	p.idle = slices.Delete(p.idle, 0, 1)
	p.live--
	p.flying.Add(1) // Close waits for this one too
	p.mu.Unlock()
	defer p.flying.Done()
	in.close()
}

// surplusTime is how long an instance may be idle beside others. The one used last is
// used first, so nobody needed it for as long.
const surplusTime = 15 * time.Second

// restLocked is how much longer the instance that has been idle for longest may be.
func (p *Handler) restLocked() time.Duration {
	most := p.guest.Limits.Idle
	if len(p.idle) > 1 {
		most = min(most, surplusTime)
	}
	return most - time.Since(p.idle[0].idleSince)
}

// watchIdleLocked sees to it that what stays idle is closed.
func (p *Handler) watchIdleLocked() {
	rest := p.restLocked()
	if p.evicting == nil {
		p.evicting, p.evictAt = time.AfterFunc(rest, p.closeStale), time.Now().Add(rest)
	} else if time.Until(p.evictAt) > rest+surplusTime/2 {
		p.evicting.Reset(rest)
		p.evictAt = time.Now().Add(rest)
	}
}

func (p *Handler) closeStale() {
	p.mu.Lock()
	p.evicting = nil
	if len(p.idle) == 0 {
		p.mu.Unlock()
		return
	}
	p.flying.Add(1) // Close waits for these too
	defer p.flying.Done()
	var stale []*instance
	for len(p.idle) > 0 && p.restLocked() <= 0 {
		if time.Since(p.idle[0].idleSince) >= p.guest.Limits.Idle {
			p.guest.Hits[plugin.LimitIdle].Add(1)
		}
		stale = append(stale, p.idle[0])
		p.idle = slices.Delete(p.idle, 0, 1)
	}
	p.live -= len(stale)
	if len(p.idle) > 0 {
		p.watchIdleLocked()
	}
	p.mu.Unlock()
	for _, in := range stale {
		in.close()
	}
}
