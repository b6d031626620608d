package wasm

import "time"

// LimitCompilers sets the limits of each compilation of h: processor time, and memory in bytes.
func LimitCompilers(h *Host, cpu time.Duration, memory uint64) {
	h.compilerLimits = compilerLimits{cpu, memory}
}
