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
	"github.com/daeace23/prober/internal/redact"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// ErrNoInstance means that an attempt got no instance of the plugin, or waited for the host
// during most of its time: other attempts used up the memory, the limit of instances or the
// slots. It matches [probe.ErrNoSlot].
var ErrNoInstance error = &attempt.Skipped{Err: errors.New("no instance of the plugin is free")}

// Handler is a loaded plugin. It is safe for concurrent use.
type Handler struct {
	guest     guest.Plugin
	host      *Host
	module    *binary.Module
	stubName  string // name of the stub's file in the cache
	isStub    bool   // module.Code holds the stub instead of the module
	static    bool   // no function of the guest may be called, see Host.Check
	runtime   wazero.Runtime
	compiled  wazero.CompiledModule
	instances *sched.Quota // shares the limit of instances
	image     *image       // taken from the first instance; nil if the module is volatile
	size0     int          // bytes of memory that the first instance has after its start
	reset     bool         // instances are reused after a reset
	pooled    bool         // instances are reused without a reset

	hasInitialize, hasValidate bool // the module exports _initialize, validate_config

	size atomic.Uint64 // see Stats.Size

	mu       sync.Mutex
	idle     []*instance    // the most recently used one is last
	live     int            // instances, idle or not
	inUse    sync.WaitGroup // counts instances held by calls and evictions
	closed   bool
	evicting *time.Timer // calls closeStale; nil if there is no idle instance
}

var _ probe.ContextPreparer = (*Handler)(nil)

// Manifest returns the plugin's manifest. It must not be changed.
func (p *Handler) Manifest() *plugin.Manifest { return p.guest.Manifest }

// Digest returns the digest of the module's bytes, "sha256:…".
func (p *Handler) Digest() string { return p.guest.Digest }

// Stats are figures of a plugin. Counters begin when it is loaded.
type Stats struct {
	Idle   int    // instances without a call
	Busy   int    // instances in a call
	Denied uint64 // dials that the grants did not cover
	Size   uint64 // bytes of linear memory of the most recently called guest
	Fuel   uint64 // units of fuel used by all guests, see Deadline
	// Limits counts the attempts that reached each limit. For Calls and Idle it counts the
	// instances. Limits that were not reached are omitted. The limits that are checked when the
	// plugin is loaded, and the limit of table entries, are not counted.
	Limits map[plugin.LimitName]uint64
}

// Deadline says how the deadline of a guest that computes is enforced.
type Deadline string

const (
	// DeadlineFuel means that the module was rewritten to count the instructions that it runs. One
	// unit of fuel is about one instruction. The host gives it fuel in slices, and none after the
	// deadline. The same run always takes the same fuel.
	DeadlineFuel Deadline = "fuel"

	// DeadlineChecks means that wazero checks at every loop and call whether the guest must end. The
	// guest then runs several times slower. It is for modules that cannot be rewritten.
	DeadlineChecks Deadline = "checks"
)

// Deadline returns how the deadline of guests is enforced.
func (p *Handler) Deadline() Deadline {
	if p.module.Metered {
		return DeadlineFuel
	}
	return DeadlineChecks
}

// Limits returns the limits in effect.
func (p *Handler) Limits() plugin.Limits { return p.guest.Limits }

// Stats returns the current figures.
func (p *Handler) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{Idle: len(p.idle), Busy: p.live - len(p.idle), Denied: p.guest.Denied.Load(), Size: p.size.Load(), Fuel: p.guest.Fuel.Load(), Limits: p.guest.Hits.Counts()}
}

// Prepare implements [probe.Preparer]. It validates config against the manifest's schema, fills
// in the defaults, and calls the guest's validate_config if it is exported.
func (p *Handler) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	return p.PrepareContext(context.Background(), config, target)
}

// PrepareContext implements [probe.ContextPreparer].
func (p *Handler) PrepareContext(ctx context.Context, config []byte, target probe.Target) (probe.Handler, error) {
	config, err := p.guest.Manifest.Config.Apply(config)
	if err != nil {
		return nil, err
	}
	b := &bound{plugin: p, config: config, url: attempt.URLOf(config), store: new(attempt.Store)}
	if p.guest.Command || !p.hasValidate {
		return b, nil
	}
	ctx, cancel := p.host.cfg.Clock.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := whenFree(ctx, func() error { return b.validate(ctx, target) }); err != nil {
		return nil, redact.Error(err, redact.New(b.Secrets()).Replace)
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

// Close waits for the attempts in flight and frees the plugin.
func (p *Handler) Close() error {
	p.mu.Lock()
	already := p.closed
	p.closed = true
	if p.evicting != nil {
		p.evicting.Stop()
	}
	idle := p.removeIdleLocked(len(p.idle))
	p.mu.Unlock()
	if already {
		return nil
	}
	p.host.remove(p)
	p.closeRemoved(idle)
	p.inUse.Wait()
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

// acquire returns an idle or new instance for a call. The caller calls release.
func (p *Handler) acquire(c *call) (*instance, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, attempt.ErrClosed
	}
	p.inUse.Add(1) // Close waits from now on
	p.mu.Unlock()
	if !c.admit() {
		p.inUse.Done()
		return nil, ErrNoInstance
	}
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		in := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		in.memory.Hold(c)
		c.Holds(in.memory.Taken())
		return in, nil
	}
	if limit := p.guest.Limits.Instances; limit > 0 && p.live >= limit {
		p.mu.Unlock()
		p.inUse.Done()
		c.leave()
		c.Hit(plugin.LimitInstances)
		return nil, ErrNoInstance
	}
	p.live++
	p.mu.Unlock()
	return p.newFor(c)
}

// newFor makes an instance for a call that was admitted.
func (p *Handler) newFor(c *call) (in *instance, err error) {
	start := p.host.cfg.Clock.Now()
	defer func() {
		c.AddWait(start)
		if in == nil {
			p.mu.Lock()
			p.live--
			p.mu.Unlock()
			p.inUse.Done()
			c.leave()
		}
	}()
	if in, err = p.newInstance(c.Context(), c); err != nil && c.Context().Err() == context.DeadlineExceeded {
		err = ErrNoInstance // the guest did not run: this says nothing about the target
	}
	return in, err
}

// release returns the instance that acquire returned. Only an instance whose call ended normally is
// reused.
func (p *Handler) release(c *call, in *instance, normal bool, now time.Time) {
	defer p.inUse.Done()
	defer c.leave()
	reusable := normal && (p.pooled || p.reset) && !in.worn()
	p.keepOrClose(in, reusable && (p.pooled || in.restore(p.image)), now)
}

// keepOrClose adds the instance to the idle ones if keep is set, and closes it otherwise.
func (p *Handler) keepOrClose(in *instance, keep bool, now time.Time) {
	in.memory.Hold(nil)
	p.mu.Lock()
	if keep && !p.closed && (p.reset || p.pooled) {
		in.idleSince = now
		p.idle = append(p.idle, in)
		p.evictLaterLocked()
		p.mu.Unlock()
		return
	}
	p.live--
	p.mu.Unlock()
	in.noteWritten()
	in.close()
}

// idleSince returns when the instance that has been idle longest became idle, or the zero time if no
// instance is idle.
func (p *Handler) idleSince() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return time.Time{}
	}
	return p.idle[0].idleSince
}

// removeIdleLocked removes up to n idle instances, the longest idle first. The caller passes them to
// closeRemoved after it has released the lock.
func (p *Handler) removeIdleLocked(n int) []*instance {
	n = min(n, len(p.idle))
	if n == 0 {
		return nil
	}
	removed := slices.Clone(p.idle[:n])
	p.idle = slices.Delete(p.idle, 0, n)
	p.live -= n
	p.inUse.Add(1) // Close waits until they are closed
	return removed
}

func (p *Handler) closeRemoved(instances []*instance) {
	for _, in := range instances {
		in.close()
	}
	if len(instances) > 0 {
		p.inUse.Done()
	}
}

// evictOne closes the instance that has been idle longest, if there is one.
func (p *Handler) evictOne() {
	p.mu.Lock()
	removed := p.removeIdleLocked(1)
	p.mu.Unlock()
	p.closeRemoved(removed)
}

// surplusTime is how long an instance may be idle while others are idle too. The most recently used
// instance is reused first, so an instance that is idle for longer is not needed.
const surplusTime = 15 * time.Second

// idleTimeLeftLocked returns how much longer the idle instance with index i may stay idle.
func (p *Handler) idleTimeLeftLocked(i int) time.Duration {
	limit := p.guest.Limits.Idle
	if i < len(p.idle)-1 {
		limit = min(limit, surplusTime)
	}
	return limit - p.host.since(p.idle[i].idleSince)
}

// evictLaterLocked starts the timer for closeStale if there are idle instances. The timer fires
// after surplusTime at the latest, because more instances may become idle.
func (p *Handler) evictLaterLocked() {
	if p.evicting == nil && len(p.idle) > 0 {
		p.evicting = time.AfterFunc(min(p.idleTimeLeftLocked(0), surplusTime), p.closeStale)
	}
}

// closeStale closes the instances that have been idle for too long.
func (p *Handler) closeStale() {
	p.mu.Lock()
	stale := 0
	for stale < len(p.idle) && p.idleTimeLeftLocked(stale) <= 0 {
		if p.host.since(p.idle[stale].idleSince) >= p.guest.Limits.Idle {
			p.guest.Hits[plugin.LimitIdle].Add(1)
		}
		stale++
	}
	removed := p.removeIdleLocked(stale)
	p.evicting = nil
	p.evictLaterLocked()
	p.mu.Unlock()
	p.closeRemoved(removed)
}
