package conditions

import "time"

// share is what a namespace has of a [Writer]. The writer's lock guards it.
type share struct {
	active  int       // patches in flight
	failing int       // of those, of pods whose last patch has failed
	served  time.Time // when its last patch began

	reported time.Time // when the log last said that its patches fail
	told     bool      // the log has not said since that they succeed again
}

// reportEvery is the least time between two lines in the log that patches of a namespace fail.
const reportEvery = time.Minute

// hasPlace reports whether another patch may begin. failed is whether the last one of the pod has failed.
func (s *share) hasPlace(failed bool) bool {
	return s.active < maxInFlight && !(failed && s.failing >= maxFailing)
}

// begin takes a place, and returns how it is given back.
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

// reports reports whether the log is to say that a patch has failed.
func (s *share) reports(now time.Time) bool {
	if !s.reported.IsZero() && now.Sub(s.reported) < reportEvery {
		return false
	}
	first := !s.told
	s.told, s.reported = true, now
	return first
}

// recovers reports whether the log is to say that patches succeed again.
func (s *share) recovers() bool {
	told := s.told
	s.told = false
	return told
}
