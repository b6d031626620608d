package plugintest

import (
	"context"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
	"github.com/daeace23/prober/probe"
)

// Bench is a guest that is called with one case over and over, as a benchmark does. It is not
// safe for concurrent use.
type Bench struct {
	sandbox *sandbox
	c       *Case
	handler probe.Handler
	calls   uint64
}

// NewBench loads a module as manifest says, which need not be its own, and prepares it for the
// case. It uses how cfg executes guests, and where it caches them.
func NewBench(ctx context.Context, c *Case, module []byte, manifest *plugin.Manifest, cfg Config) (*Bench, error) {
	g := newGuestRun(cfg, module, manifest, nil)
	s, err := g.load(ctx, g.plain(manifest.Isolation), manifest, c.Grants...)
	if err != nil {
		return nil, err
	}
	b := &Bench{sandbox: s, c: c}
	b.reset()
	if b.handler, err = s.handler.Prepare(c.ConfigJSON(), c.Target); err != nil {
		s.close()
		return nil, err
	}
	return b, nil
}

// reset makes a new network for the next call.
func (b *Bench) reset() {
	b.calls++
	b.sandbox.clock.StartAt(b.sandbox.clock.Now().Add(time.Hour))
	b.sandbox.rand.seed(b.calls)
	b.sandbox.network = peer.New(b.c.Setup(), b.sandbox.clock, b.calls)
}

// Call makes an attempt, and returns how long it took in real time, host and peers included.
func (b *Bench) Call(ctx context.Context) (probe.Outcome, time.Duration, error) {
	b.reset()
	if keeper, ok := b.handler.(wasm.Keeper); ok && b.c.KV != nil {
		keeper.Keep(b.c.KV)
	}
	ctx, cancel := b.sandbox.clock.WithTimeout(ctx, b.c.Timeout)
	defer cancel()
	start := time.Now()
	out, err := b.handler.Probe(ctx, b.c.Request())
	return out, time.Since(start), err
}

// Memory returns the bytes of linear memory of the guest that was called last.
func (b *Bench) Memory() uint64 { return b.sandbox.handler.Stats().Size }

// Fuel returns the units of fuel that all calls took. It stays 0 if there is none, see
// [Bench.Deadline].
func (b *Bench) Fuel() uint64 { return b.sandbox.handler.Stats().Fuel }

// Deadline returns how the deadline of the guest is enforced.
func (b *Bench) Deadline() wasm.Deadline { return b.sandbox.handler.Deadline() }

// Close frees the guest.
func (b *Bench) Close() { b.sandbox.close() }
