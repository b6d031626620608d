package wasm

import "time"

// LimitCompilers sets the limits of each compilation of h.
func LimitCompilers(h *Host, most time.Duration, memory uint64) {
	h.compilerLimits = compilerLimits{most, memory}
}
