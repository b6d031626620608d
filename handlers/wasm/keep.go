package wasm

import (
	"maps"

	"github.com/daeace23/prober/probe"
)

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
