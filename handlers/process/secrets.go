package process

import (
	"sync"
)

// secrets is what is known about the secrets in the configs of a plugin's probes. All probes
// share a process, so nobody knows whose secret a line that it writes may hold.
//
// Nothing that a process writes is logged once a config has had secrets. It is quoted in
// errors, redacted, unless it may hold a secret that cannot be redacted: of a probe that has
// ended, or of a config that was refused.
type secrets struct {
	mu          sync.Mutex
	redact      map[*bound]func(text string) string // of live probes
	private     bool                                // a config has had secrets, or was refused
	validating  int                                 // configs that are being validated: nobody has said yet what is secret
	validations uint64                              // so far
	unknown     uint64                              // how often secrets became unknown
}

// keep notes the secrets of a live probe.
func (s *secrets) keep(b *bound, redact func(text string) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.redact == nil {
		s.redact = make(map[*bound]func(string) string)
	}
	s.redact[b] = redact
	s.private = true
}

// forget notes that a probe has ended.
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
	first bool // there was no other
}

func (s *secrets) validate() validation {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.validating++
	s.validations++
	return validation{s, s.validations, s.validating == 1}
}

// alone reports whether there has been no other validation since v began: what the process
// writes meanwhile is about its config.
func (v *validation) alone() bool {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	return v.first && v.of.validations == v.begun
}

// end notes whether the config was refused: then nobody will say what of it is secret.
func (v *validation) end(refused bool) {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	v.of.validating--
	if refused {
		v.of.private = true
		v.of.unknown++
	}
}

// state returns whether nothing may be logged, and whether a config is being validated.
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

// redacted takes the secrets of all live probes out of a text. No probe knows the others'
// secrets, which may overlap: of a text with secrets of several nothing is left.
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
