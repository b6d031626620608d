package wasm

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/daeace23/prober/handlers/wasm/internal/sched"
	"github.com/daeace23/prober/probe"
)

var (
	_ probe.Inheritor = (*bound)(nil)
	_ probe.Trier     = (*bound)(nil)
)

// Inherit implements [probe.Inheritor]: with a new version of the plugin, the probe keeps its
// key-value store and its history class.
func (b *bound) Inherit(from probe.Handler) {
	if old, ok := from.(*bound); ok {
		b.store = old.store
		b.class.Store(old.class.Load())
	}
}

// tryTimeout is the timeout of the attempt that [bound.Try] makes.
const tryTimeout = time.Second

// Try implements [probe.Trier]. It calls the guest's probe without network, DNS and kv. The
// verdict, an error that the guest returns and the deadline are ignored, because its host calls
// fail. A trap or a violation of the contract is an error.
func (b *bound) Try(ctx context.Context) error {
	ctx, cancel := b.plugin.host.cfg.Clock.WithTimeout(ctx, tryTimeout)
	defer cancel()
	err := whenFree(ctx, func() error { return b.try(ctx) })
	if errors.Is(err, ErrNoInstance) { // the host is busy
		return nil
	}
	return err
}

// try is Try, and returns ErrNoInstance if no instance is free.
func (b *bound) try(ctx context.Context) error {
	request := probe.Request{Attempt: 1, Spec: probe.Spec{Timeout: tryTimeout, Period: tryTimeout, SuccessThreshold: 1, FailureThreshold: 1}}
	c := newCall(ctx, b, &request, nil, sched.Prompt, b.plugin.host.cfg.Clock.Now())
	in, err := b.begin(c)
	if err != nil {
		return err
	}
	normal := false
	defer func() { b.end(c, in, normal, b.plugin.host.cfg.Clock.Now()) }()
	code, err := in.run(c, in.probe)
	ended := c.Ended()
	if err == nil && ended == nil {
		_, err = c.Outcome(code, in.world)
	}
	normal = err == nil && ended == nil
	if ended != nil || err != nil && probe.ReasonOf(err) == probe.ReasonGuest {
		return nil
	}
	return err
}

// Keeper is implemented by the handlers that [Handler.Prepare] returns. It gives tests of
// plugins access to the key-value store of the probe.
type Keeper interface {
	probe.Handler
	// Kept returns a copy of the stored values.
	Kept() map[string][]byte
	// Keep replaces the stored values.
	Keep(data map[string][]byte)
}

var _ Keeper = (*bound)(nil)

// Kept implements [Keeper].
func (b *bound) Kept() map[string][]byte { return maps.Clone(b.store.Load()) }

// Keep implements [Keeper].
func (b *bound) Keep(data map[string][]byte) { b.store.Replace(maps.Clone(data)) }
