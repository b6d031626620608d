package agent

import "time"

// tidy unloads the plugins that no probe has used for a while, and forgets that others were
// wanted. It reports whether there was such a one that could not be used.
func (s *handlerSet) tidy(now time.Time) (failed bool) {
	for _, r := range s.records() {
		if !s.deserted(r) && !s.unused(r, now) || !r.tryLock() {
			continue // it is being changed, so that it is of use
		}
		if s.deserted(r) {
			s.forget(r)
			r.unlock()
			continue
		}
		failed = s.unload(r) || failed
		r.unlock()
	}
	return failed
}

// deserted reports whether r was withdrawn, and the last of its probes has ended since.
func (s *handlerSet) deserted(r *pluginRecord) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.withdrawn && s.plugins[r.name] == r && !s.named[r.name] && !s.mayBe[r.name] && r.swap.Live() == 0
}

// unused reports whether r has been of no use for so long that it is to go. What could not
// be used goes at once, what runs after a while. A version that was promoted stays: its
// place is held by another.
func (s *handlerSet) unused(r *pluginRecord, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.named[r.name] || s.mayBe[r.name] || !s.wanted[r.name] || r.withdrawn || r.mark != r.base || r.swap.Live() > 0 {
		r.idle = time.Time{}
		return false
	}
	if r.mark == "" {
		return r.err != nil
	}
	if r.idle.IsZero() {
		r.idle = now
	}
	return now.Sub(r.idle) >= s.cfg.idleAfter
}

// unload lets go of r, which the caller has locked, unless a probe came this moment. The
// next probe that asks for it has it loaded again. It reports whether it could not be used.
func (s *handlerSet) unload(r *pluginRecord) (failed bool) {
	s.mu.Lock()
	if s.named[r.name] || s.mayBe[r.name] || r.withdrawn || !r.swap.Unload(errUnloaded) {
		s.mu.Unlock()
		return false
	}
	ran := r.mark != ""
	failed = r.err != nil || r.shadow != nil && r.shadow.err != nil
	r.mark, r.base, r.tried, r.err, r.shadow, r.idle, r.at = "", "", "", nil, nil, time.Time{}, time.Now()
	delete(s.wanted, r.name)
	s.mu.Unlock()
	if ran {
		s.log.Info("plugin unloaded: no probe has used it for a while", "handler", r.name, "generation", r.swap.Generation())
	}
	return failed
}
