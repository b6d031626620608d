package wasm

// Compiling returns how many compilations of h are under way.
func Compiling(h *Host) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.compilations
}

// Closed reports whether Close of h has begun.
func Closed(h *Host) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

// WaitForCompilers waits for the compilations that nobody waits for any more.
func WaitForCompilers(h *Host) { h.compilers.Wait() }

// WaitForGuests waits for the guests of p that nobody waits for any more.
func WaitForGuests(p *Handler) { p.flying.Wait() }

// FreePlaces returns how many guests more may run.
func FreePlaces(h *Host) int {
	h.running.mu.Lock()
	defer h.running.mu.Unlock()
	return h.running.free - h.running.extra
}
