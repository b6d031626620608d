package process

import "sync"

// secrets is what is known about the secrets in the configs of a plugin's probes. All probes
// share a process, so a line that it writes may contain the secret of any of them.
//
// Once a config had secrets, nothing that the process writes is logged. Errors quote it, redacted,
// unless it may contain a secret that is no longer known: of a probe that has ended, or of a
// config that was refused.
type secrets struct {
	mu          sync.Mutex
	redact      map[*bound]func(text string) string // of live probes
	private     bool                                // a config had secrets, or was refused
	validating  int                                 // configs that are being validated, whose secrets are not known yet
	validations uint64                              // so far
	unknown     uint64                              // how often secrets became unknown
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

// validation is one config that is being validated.
type validation struct {
	of    *secrets
	begun uint64
	first bool // no other was running
}

func (s *secrets) validate() validation {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.validating++
	s.validations++
	return validation{s, s.validations, s.validating == 1}
}

// alone reports whether no other validation has run since v began. Then what the process has
// written meanwhile is about the config of v.
func (v *validation) alone() bool {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	return v.first && v.of.validations == v.begun
}

// end ends a validation. The secrets of a config that was refused stay unknown.
func (v *validation) end(refused bool) {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	v.of.validating--
	if refused {
		v.of.private = true
		v.of.unknown++
	}
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
