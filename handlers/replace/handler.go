// Package replace replaces the code of a handler while probes use it.
//
// A [Handler] is registered once. It delegates to one handler at a time, the current generation.
// [Handler.Replace] replaces the generation. [Handler.Shadow] runs a second handler for comparison.
//
// Read handler.go first: Prepare binds a probe, Replace replaces the generation. Then install.go, one
// replacement from top to bottom: prepare the live probes with the new handler, try it, install it.
// bound.go has one probe and its attempts. generation.go counts the attempts of a generation, and closes
// it after the last one.
package replace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/handlers/shadow"
	"github.com/daeace23/prober/probe"
)

// Config configures a [Handler].
type Config struct {
	// Name is the handler's name, for errors.
	Name string
	// Closed is called once for every handler that was replaced or withdrawn, after the handler was
	// closed. err is the error of Close, or a panic of Release or Close. Closed may be nil.
	Closed func(h probe.Handler, err error)
}

// Handler is a handler whose code can be replaced while probes use it. It delegates to a generation,
// which can be any handler. Handler owns and closes its generations.
//
// [Handler.Replace] first prepares the new handler with the configs of all live probes. Then all probes
// change over together: a running attempt ends in the old generation, and the next attempt begins in the
// new one. The schedule, the thresholds and the decided results of a probe are not affected. The old
// generation is closed when its last attempt has ended, at the latest after the longest timeout of all
// attempts so far. That limit is at least 1 s and at most 24 h.
//
// A probe is live from Prepare until the [probe.Releaser] that Prepare returns is released.
// Handler is safe for concurrent use.
// See RATIONALE.md, "Why is a handler replaced behind its probes, and not by binding them anew?"
type Handler struct {
	cfg       Config
	longest   atomic.Int64 // longest timeout of all attempts so far
	compared  shadow.Comparison
	ending    sync.WaitGroup // counts generations that are being closed
	replacing sync.Mutex     // held during Replace, Withdraw, Shadow, Unshadow and Promote; locked before mu

	mu     sync.Mutex
	active *generation // nil if there is none
	why    error       // why active is nil
	awaits bool        // probes may be bound while active is nil
	number int         // number of generations so far
	live   map[*bound]struct{}
	shadow *generation // nil if there is none
	closed bool
}

var (
	_ probe.Preparer = (*Handler)(nil)
	_ io.Closer      = (*Handler)(nil)
)

// ErrClosed is the error of a Handler that is closed.
var ErrClosed = errors.New("the handler is closed")

var errNotLoaded = errors.New("nothing has been loaded yet")

// New returns a Handler without a generation. Its probes return an error until [Handler.Replace].
func New(cfg Config) *Handler {
	return &Handler{cfg: cfg, live: make(map[*bound]struct{}), why: errNotLoaded}
}

// Replace makes next the current generation. It prepares every live probe with next. If there is a
// generation that would be lost, it also tries next with one of the probes, see [probe.Trier]. After an
// error nothing has changed, and the caller must close next.
//
// Only one of Replace, Withdraw, Shadow, Unshadow, Promote and Close runs at a time. next must
// not call them.
func (h *Handler) Replace(ctx context.Context, next probe.Handler) error {
	h.replacing.Lock()
	defer h.replacing.Unlock()
	active, _ := h.Current()
	return h.prepareAndInstall(ctx, newGeneration(next), active != nil, h.installLocked)
}

// Withdraw removes the current generation. Until there is another one, attempts return an error that
// wraps why, so that decided results do not change.
func (h *Handler) Withdraw(why error) {
	h.replacing.Lock()
	defer h.replacing.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropShadowLocked()
	h.why, h.awaits = why, false
	h.changeOverLocked(nil, nil)
}

// Await allows probes to be bound while there is no generation. Until [Handler.Replace], their attempts
// return an error that wraps why. Replace then prepares them. If it refuses the config of such a probe,
// the probe continues to return an error. If there is a generation, Await only sets why.
func (h *Handler) Await(why error) {
	h.replacing.Lock()
	defer h.replacing.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.awaits, h.why = h.active == nil, why
}

// Close implements [io.Closer]. It waits, for a bounded time, until all running attempts have ended and all
// generations are closed.
func (h *Handler) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.Withdraw(ErrClosed)
	h.ending.Wait()
	return nil
}

// Current returns the current handler, or nil if there is none, and the number of generations so far.
func (h *Handler) Current() (current probe.Handler, generation int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.active != nil {
		current = h.active.handler
	}
	return current, h.number
}

// Live returns the number of live probes.
func (h *Handler) Live() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.live)
}

// Prepare implements [probe.Preparer]. It returns a [probe.Releaser].
func (h *Handler) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	b := &bound{owner: h, config: slices.Clone(config), target: target}
	for {
		if h.bindAwaiting(b) {
			return b, nil
		}
		gen, err := h.acquire()
		if err != nil {
			return nil, err
		}
		prepared, err := b.prepare(gen.handler)
		current := h.bind(b, gen, prepared)
		if !current {
			probe.Release(prepared)
		}
		gen.release()
		switch {
		case !current: // the generation was replaced, so its answer is ignored
		case err != nil:
			return nil, err
		default:
			h.bindShadow(b)
			return b, nil
		}
	}
}

// bindAwaiting makes b live without a generation, if that is allowed, and reports whether it did.
func (h *Handler) bindAwaiting(b *bound) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.active != nil || !h.awaits || h.closed {
		return false
	}
	b.active.Store(&binding{nil, awaiting{}})
	h.live[b] = struct{}{}
	return true
}

// bind reports whether gen is still the active generation. If it is, and prepared is not nil, b becomes
// live with prepared.
func (h *Handler) bind(b *bound, gen *generation, prepared probe.Handler) (current bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.active != gen {
		return false
	}
	if prepared != nil {
		b.active.Store(&binding{gen, prepared})
		h.live[b] = struct{}{}
	}
	return true
}

// acquire acquires the active generation.
func (h *Handler) acquire() (*generation, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.active == nil {
		return nil, h.missingLocked()
	}
	h.active.acquire() // cannot fail, because an active generation is not retired
	return h.active, nil
}

// Probe implements [probe.Handler] for probes that were not prepared.
func (h *Handler) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	h.noteTimeout(req.Spec.Timeout)
	gen, err := h.acquire()
	if err != nil {
		return probe.Outcome{}, err
	}
	defer gen.release()
	return gen.handler.Probe(ctx, req)
}

// noteTimeout records the longest timeout.
func (h *Handler) noteTimeout(timeout time.Duration) {
	for {
		longest := h.longest.Load()
		if int64(timeout) <= longest || h.longest.CompareAndSwap(longest, int64(timeout)) {
			return
		}
	}
}

// missing returns the error of an attempt without a generation.
func (h *Handler) missing() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.missingLocked()
}

func (h *Handler) missingLocked() error {
	return &probe.Error{Reason: probe.ReasonInstantiate, Err: fmt.Errorf("plugin %q: %w", h.cfg.Name, h.why)}
}
