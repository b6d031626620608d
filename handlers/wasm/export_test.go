package wasm

// Compiling returns how many compilations of h are under way.
func Compiling(h *Host) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.compilations
}

// WaitForCompilers waits for the compilations that nobody waits for any more.
func WaitForCompilers(h *Host) { h.compilers.Wait() }
