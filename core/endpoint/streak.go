package endpoint

import (
	"math"
	"math/bits"

	"github.com/daeace23/prober/core/states"
)

// Thresholds say when results decide the state of a check. The zero value lets each result decide.
type Thresholds struct {
	Successes, Failures int // in a row; 0 means 1
	// Of, if it is not 0, makes Failures count among the last Of results, at most 64, rather than in a row.
	// Then the check succeeds again when fewer than Failures of them fail.
	Of int
}

func (t *Thresholds) check() (problem string) {
	switch {
	case t.Successes < 0 || t.Failures < 0 || t.Of < 0 || t.Of > maxSeen:
		return "thresholds must be from 0, and Of at most 64"
	case t.Of != 0 && (t.Failures == 0 || t.Failures > t.Of):
		return "Failures must be from 1 to Of"
	case t.Of != 0 && t.Successes != 0:
		return "Successes is not used beside Of"
	}
	return ""
}

// streak has the last results of a check, and decides its state from them.
//
// The fold of core/internal/engine is another rule: the kubelet's. It decides a result, has no window, knows
// no warning, and may hold a probe. Both count a run, which is one line. One function for both would need the
// fields of both.
type streak struct {
	failed uint64 // bits of the last results, the newest first; 1 is a failure
	run    int32  // length of the run of equal results, at most maxRun
	seen   uint8  // results in failed, at most maxSeen
}

const (
	maxRun  = math.MaxInt32
	maxSeen = 64
)

// add adds a result, success, warning or failure. It returns the state of the check after it; was is the
// state before.
func (s *streak) add(t Thresholds, was, result states.State) states.State {
	fails := result == states.Failure
	if s.seen > 0 && fails == (s.failed&1 == 1) {
		s.run = min(s.run, maxRun-1) + 1
	} else {
		s.run = 1
	}
	s.push(fails)
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
	case fails && int(s.run) >= t.Failures:
		return states.Failure
	case !fails && (was == states.Success || was == states.Warning || int(s.run) >= t.Successes):
		return result
	default:
		return was
	}
}

func (s *streak) push(fails bool) {
	s.failed <<= 1
	if fails {
		s.failed |= 1
	}
	s.seen = min(s.seen+1, maxSeen)
}

// results returns the last n results, or all if there are fewer, as [PushState.Results] has them.
func (s *streak) results(n int) string {
	var text [maxSeen]byte
	n = min(n, int(s.seen))
	for i := range n {
		text[n-1-i] = 's'
		if s.failed&(1<<i) != 0 {
			text[n-1-i] = 'f'
		}
	}
	return string(text[:n])
}

// restored returns a streak with such results, and a run of that length. Other letters are left out.
func restored(results string, run int) (s streak) {
	for _, r := range []byte(results[max(0, len(results)-maxSeen):]) {
		if r == 's' || r == 'f' {
			s.push(r == 'f')
		}
	}
	s.run = int32(min(max(run, 0), maxRun))
	return s
}
