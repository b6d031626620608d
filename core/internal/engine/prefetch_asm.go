//go:build (amd64 || arm64) && !purego

package engine

import "unsafe"

const prefetches = true

// prefetch asks the processor to load size bytes from p into its caches, without waiting. p may be any
// address.
//
//go:noescape
func prefetch(p unsafe.Pointer, size uintptr)
