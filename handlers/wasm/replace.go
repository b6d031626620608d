package wasm

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/daeace23/prober/handlers/wasm/internal/guest"
	"github.com/daeace23/prober/handlers/wasm/internal/sched"
	"github.com/daeace23/prober/probe"
)

var (
	_ probe.Inheritor = (*bound)(nil)
	_ probe.Trier     = (*bound)(nil)
)

// Inherit implements [probe.Inheritor]: what a probe keeps is its own, and no new
// version of the plugin takes that away. Neither does it make the probe one of which
// nothing is known.
func (b *bound) Inherit(from probe.Handler) {
	if old, ok := from.(*bound); ok {
		b.store = old.store
		b.class.Store(old.class.Load())
	}
}

// tryTimeout is the timeout of the attempt that [bound.Try] makes.
const tryTimeout = time.Second

// Try implements [probe.Trier]. It calls probe out of reach of the network, of names
// and of what the probe keeps. The guest finds that its host calls fail, so that its
// verdict, and an error of its own, say nothing; nor does a deadline, since it may wait
// for a target. But it must not trap, and must keep the contract.
func (b *bound) Try(ctx context.Context) error {
	ctx, cancel := b.plugin.host.cfg.Clock.WithTimeout(ctx, tryTimeout)
	defer cancel()
	for {
		err := b.try(ctx)
		if !errors.Is(err, ErrNoInstance) {
			return err
		}
		if ctx.Err() != nil {
			return nil // the host is busy, which says nothing of the guest
		}
		guest.Wait(ctx, nil, sched.Patience)
	}
}

func (b *bound) try(ctx context.Context) error {
	request := probe.Request{Attempt: 1, Spec: probe.Spec{Timeout: tryTimeout, Period: tryTimeout, SuccessThreshold: 1, FailureThreshold: 1}}
	c := newCall(ctx, b, &request, nil, sched.Prompt)
	in, err := b.begin(c)
	if err != nil {
		return err
	}
	again := false
	defer func() { b.end(c, in, again) }()
	code, err := in.run(c, in.probe)
	ended := c.Ended()
	if err == nil && ended == nil {
		_, err = c.Outcome(code, in.world)
	}
	again = err == nil && ended == nil
	if ended != nil || err != nil && probe.ReasonOf(err) == probe.ReasonGuest {
		return nil
	}
	return err
}

// Keeper is implemented by the handlers that [Handler.Prepare] returns. It shows what
// the probe keeps from attempt to attempt, to tests and to whoever explains a probe.
type Keeper interface {
	probe.Handler
	// Kept returns a copy of what is kept.
	Kept() map[string][]byte
	// Keep replaces what is kept.
	Keep(data map[string][]byte)
}

var _ Keeper = (*bound)(nil)

// Kept implements [Keeper].
func (b *bound) Kept() map[string][]byte { return maps.Clone(b.store.Load()) }

// Keep implements [Keeper].
func (b *bound) Keep(data map[string][]byte) { b.store.Replace(maps.Clone(data)) }
