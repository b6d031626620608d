//go:build purego || !(amd64 || arm64)

package engine

import "unsafe"

const prefetches = false

func prefetch(unsafe.Pointer, uintptr) {}
