package endpoint

import (
	"math/bits"

	"github.com/daeace23/prober/core/states"
)

// Thresholds say when results decide the state of a pushed or a passive check. The zero value lets each result decide.
type Thresholds struct {
	Successes, Failures int // consecutive ones; 0 means 1
	// Of, if it is not 0, makes Failures count among the last Of results, at most 64, rather than in a row. Then the check
	// succeeds again when fewer than Failures of them fail.
	Of int
}

func (t *Thresholds) check() (problem string) {
	switch {
	case t.Successes < 0 || t.Failures < 0 || t.Of < 0 || t.Of > 64:
		return "thresholds must be from 0, and Of at most 64"
	case t.Of != 0 && (t.Failures == 0 || t.Failures > t.Of):
		return "Failures must be from 1 to Of"
	case t.Of != 0 && t.Successes != 0:
		return "Successes is not used beside Of"
	}
	return ""
}

// streak has the last results of a check.
type streak struct {
	failed uint64 // bits of the last results, the newest first; 1 is a failure
	seen   uint8  // results in failed, at most 64
	run    uint32 // length of the run of equal results
	last   states.State
}

// add adds a result, success, warning or failure. It returns the state of the check after it; was is the state before.
func (s *streak) add(t Thresholds, was, result states.State) states.State {
	fails := result == states.Failure
	if (s.last == states.Failure) == fails && s.run > 0 {
		s.run++
	} else {
		s.run = 1
	}
	s.last = result
	s.failed <<= 1
	if fails {
		s.failed |= 1
	}
	s.seen = min(s.seen+1, 64)
	if t.Of != 0 {
		window := s.failed & (1<<t.Of - 1) // all bits for 64
		if bits.OnesCount64(window) >= t.Failures {
			return states.Failure
		}
		if !fails {
			return result
		}
		if was == states.Failure || was == states.Unknown && int(s.seen) < t.Of {
			return was
		}
		return states.Success
	}
	switch {
	case fails && s.run >= uint32(max(1, t.Failures)):
		return states.Failure
	case !fails && (was == states.Success || was == states.Warning || s.run >= uint32(max(1, t.Successes))):
		return result
	default:
		return was
	}
}
