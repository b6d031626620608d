package process

import "sync"

// secrets is what is known about the secrets in the configs of a plugin's probes. All probes
// share a process, so a line that it writes may contain the secret of any of them.
//
// Once a config had secrets, nothing that the process writes is logged. Errors quote it, redacted,
// unless it may contain a secret that is no longer known: of a probe that has ended, or of a
// config that was refused.
type secrets struct {
	mu         sync.Mutex
	redact     map[*bound]func(text string) string // of live probes
	private    bool                                // a config had secrets, or was refused
	validating int                                 // configs that are being validated, whose secrets are not known yet
	overlapped bool                                // two of them were validated at the same time
	unknown    uint64                              // how often secrets became unknown
}

// keep adds the secrets of a live probe.
func (s *secrets) keep(b *bound, redact func(text string) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.redact == nil {
		s.redact = make(map[*bound]func(string) string)
	}
	s.redact[b] = redact
	s.private = true
}

// forget removes the secrets of a probe that has ended.
func (s *secrets) forget(b *bound) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.redact[b]; ok {
		delete(s.redact, b)
		s.unknown++
	}
}

// validate begins the validation of a config.
func (s *secrets) validate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overlapped = s.validating > 0
	s.validating++
}

// validated ends a validation. The secrets of a config that was refused stay unknown.
func (s *secrets) validated(refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.validating--
	if refused {
		s.private = true
		s.unknown++
	}
}

// validatesOne reports whether one config is being validated, and has been the only one since its
// validation began. Then what the process has written meanwhile is about that config.
func (s *secrets) validatesOne() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.validating == 1 && !s.overlapped
}

// state reports whether nothing may be logged, and whether a config is being validated.
func (s *secrets) state() (private, validating bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.private || s.validating > 0, s.validating > 0
}

// unknowns returns how often secrets became unknown.
func (s *secrets) unknowns() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unknown
}

// redacted returns text without the secrets of all live probes. Secrets of different probes may
// overlap, so nothing is left of a text that contains secrets of several.
func (s *secrets) redacted(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	result := text
	for _, redact := range s.redact {
		switch left := redact(text); {
		case left == text, left == result:
		case result != text:
			return "[redacted]"
		default:
			result = left
		}
	}
	return result
}
