package conditions

import "time"

// share is the part of a [Writer] that one namespace uses. The writer's lock guards it.
type share struct {
	active  int       // patches in flight
	failing int       // patches in flight for pods whose last patch has failed
	served  time.Time // when its last patch began

	reported   time.Time // when a failure was last logged
	unresolved bool      // a failure was logged, and no recovery since
}

// reportEvery is the minimum time between two log messages about failures of a namespace.
const reportEvery = time.Minute

// hasSlot reports whether another patch may begin. failed reports whether the pod's last patch failed.
func (s *share) hasSlot(failed bool) bool {
	return s.active < maxInFlight && !(failed && s.failing >= maxFailing)
}

// begin takes a slot. The caller must call end to free it.
func (s *share) begin(now time.Time, failed bool) (end func()) {
	s.served = now
	s.active++
	if failed {
		s.failing++
	}
	return func() {
		s.active--
		if failed {
			s.failing--
		}
	}
}

// logsFailure reports whether a failed patch must be logged: the first failure, at most once every reportEvery.
func (s *share) logsFailure(now time.Time) bool {
	if !s.reported.IsZero() && now.Sub(s.reported) < reportEvery {
		return false
	}
	first := !s.unresolved
	s.unresolved, s.reported = true, now
	return first
}

// logsRecovery reports whether a recovery must be logged.
func (s *share) logsRecovery() bool {
	unresolved := s.unresolved
	s.unresolved = false
	return unresolved
}
