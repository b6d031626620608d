package process

// StartInClose has a process start while h is closed, after that has looked for one to end
// and before it has told the start, and reports whether the process is kept.
func StartInClose(h *Handler) (kept bool) {
	k := h.keeper
	k.mu.Lock()
	program, in := k.program, k.current
	k.program, k.current, k.starting = nil, nil, make(chan struct{})
	k.mu.Unlock()
	in.stop(true)
	k.start(program)
	k.mu.Lock()
	in = k.current
	k.mu.Unlock()
	k.cancel()
	if in != nil {
		in.stop(true)
	}
	k.work.Wait()
	_ = program.Close()
	return in != nil
}
