package plugintest

import (
	"context"
	"fmt"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
	"github.com/daeace23/prober/probe"
)

// Bench calls a guest with the same case repeatedly, for benchmarks. It is not safe for
// concurrent use.
type Bench struct {
	sandbox *sandbox
	c       *Case
	handler probe.Handler
	calls   uint64
}

// NewBench loads a module with a manifest, which need not be the module's own, and prepares it for
// the case. Of cfg it uses the fields about executing and caching guests.
func NewBench(ctx context.Context, c *Case, module []byte, manifest *plugin.Manifest, cfg Config) (*Bench, error) {
	if c.HasCommands() {
		return nil, fmt.Errorf("line %d: a peer is a process, whose time would be measured", c.Line)
	}
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

// Call makes an attempt. The duration is in real time, and includes the work of the host and peers.
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

// Memory returns the size of the linear memory of the last guest, in bytes.
func (b *Bench) Memory() uint64 { return b.sandbox.handler.Stats().Size }

// Fuel returns the units of fuel that all calls consumed, 0 if the guest is not metered; see
// [Bench.Deadline].
func (b *Bench) Fuel() uint64 { return b.sandbox.handler.Stats().Fuel }

// Deadline returns how the deadline of the guest is enforced.
func (b *Bench) Deadline() wasm.Deadline { return b.sandbox.handler.Deadline() }

// Close frees the guest.
func (b *Bench) Close() { b.sandbox.close() }
