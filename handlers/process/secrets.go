package process

import "sync"

// secrets tracks the secrets in the configs of a plugin's probes. All probes share a process, so a line
// of its output may contain the secret of any of them.
//
// After a config with secrets, the output of the process is not logged. Errors still quote it, redacted.
// They do not quote it if it may contain a secret that is not known any more: of a probe that has ended,
// or of a config that was refused.
type secrets struct {
	mu         sync.Mutex
	redact     map[*bound]func(text string) string // by live probe
	private    bool                                // a config had secrets, or was refused
	validating int                                 // number of running validations, whose secrets are not known yet
	overlapped bool                                // two validations ran concurrently
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

// validated ends a validation. If the config was refused, its secrets stay unknown.
func (s *secrets) validated(refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.validating--
	if refused {
		s.private = true
		s.unknown++
	}
}

// validatesOne reports whether exactly one validation runs, without another one since it began. Then the
// output of the process since then belongs to this validation.
func (s *secrets) validatesOne() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.validating == 1 && !s.overlapped
}

// state reports whether output is private, so that it must not be logged, and whether a validation runs.
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

// redacted returns text without the secrets of all live probes. If text contains secrets of several
// probes, it is redacted completely, because the secrets may overlap.
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
