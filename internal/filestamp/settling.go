package filestamp

import "time"

// maxSettle is how long a change is delayed while files keep changing.
const maxSettle = 2 * time.Second

// Settling decides when a change of files is due, so that files are not read while they are
// being written. The zero value is ready to use.
type Settling struct {
	last  string    // the stamp at the last call
	since time.Time // when a change that is not due yet was first seen; zero for none
}

// Due reports whether a change is due now. stamp is the stamp of the files now, and known the
// stamp of the files when they were last read. A change is due when the files are the same as at
// the last call, or have been changing for 2 s.
func (s *Settling) Due(now time.Time, stamp, known string) bool {
	settled := stamp == s.last
	s.last = stamp
	if stamp == known {
		s.since = time.Time{}
		return false
	}
	if s.since.IsZero() {
		s.since = now
	}
	if !settled && now.Sub(s.since) < maxSettle {
		return false
	}
	s.since = time.Time{}
	return true
}
