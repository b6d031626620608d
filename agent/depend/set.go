package depend

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/internal/clip"
)

// maxText is the limit of the text of a fault, in bytes.
const maxText = 1 << 10

// set is a set of witnesses.
type set struct {
	name      string        // of a named set; "" for the uplink
	failed    atomic.Bool   // there are witnesses, and all of them failed in their newest attempts
	succeeded atomic.Uint64 // number of the newest attempt that succeeded
	waiting   atomic.Int32  // len(questions), read without the mutex

	// Guarded by [Judge].mu.
	members   map[*member]struct{}
	failing   int       // number of members that failed in their newest attempts
	shown     *member   // member with the text of last; nil unless failed is set
	down      uint64    // number of the newest attempt when all witnesses last failed; 0: never
	last      string    // text of a witness when all of them last failed
	made      time.Time // when the set was made
	asked     time.Time // when witnesses were last triggered
	questions map[*question]struct{}
	ended     bool // the rules do not have the set any more
}

func newSet(name string) *set {
	return &set{name: name, members: make(map[*member]struct{}), questions: make(map[*question]struct{}), made: time.Now()}
}

// member is a probe in a set.
type member struct {
	set   *set
	key   manager.Key
	pod   string
	watch *watch

	began atomic.Uint64 // number of the newest attempt with a result
	state atomic.Int32  // result of that attempt

	// Guarded by [Judge].mu.
	text  string // why it failed
	ended bool   // the probe has ended
}

// The states of a member.
const (
	unlisted  = iota // it is not in members: no attempt since it was added or ignored
	succeeded        // the witness of a named set has not failed, the one of the uplink has responded
	failing
)

// raise sets a to n if it is lower.
func raise(a *atomic.Uint64, n uint64) {
	for now := a.Load(); now < n; now = a.Load() {
		if a.CompareAndSwap(now, n) {
			return
		}
	}
}

// noteSuccess records an attempt of m that succeeded. It takes no lock if the attempt before it succeeded,
// and no other attempt waits for m.
func (j *Judge) noteSuccess(m *member, began uint64) {
	raise(&m.set.succeeded, began)
	if m.state.Load() == succeeded {
		raise(&m.began, began)
		if m.set.waiting.Load() == 0 {
			return
		}
	}
	j.note(m, began, succeeded, "")
}

// noteFailure records an attempt of m that failed.
func (j *Judge) noteFailure(m *member, began uint64, text string) {
	j.note(m, began, failing, strings.Clone(clip.Bytes(text, maxText)))
}

func (j *Judge) note(m *member, began uint64, state int32, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if m.ended || m.set.ended || began < m.began.Load() { // the last: an abandoned attempt
		return
	}
	m.began.Store(began)
	m.text = text
	m.set.moveLocked(m, state)
	m.set.updateLocked(j.begun.Load())
	if state == succeeded || m.set.failed.Load() {
		m.set.wakeLocked()
	}
}

// endLocked removes m, because its probe has ended or is in another set.
func (j *Judge) endLocked(m *member) {
	m.ended = true
	m.set.moveLocked(m, unlisted)
	m.set.changedLocked(j.begun.Load())
}

// forget ignores m until its next attempt.
func (j *Judge) forget(m *member) {
	j.mu.Lock()
	defer j.mu.Unlock()
	m.set.moveLocked(m, unlisted)
	m.set.changedLocked(j.begun.Load())
}

// moveLocked changes the state of a member. The caller must call updateLocked.
func (s *set) moveLocked(m *member, state int32) {
	if m.state.Load() == failing {
		s.failing--
	}
	if state == failing {
		s.failing++
	}
	if state == unlisted {
		delete(s.members, m)
	} else {
		s.members[m] = struct{}{}
	}
	switch {
	case s.shown == m && state != failing:
		s.shown = nil
	case s.shown != nil && state == failing && m.pod < s.shown.pod:
		s.shown = m
	}
	m.state.Store(state)
}

// changedLocked calls updateLocked, and wakes attempts that wait for s.
func (s *set) changedLocked(now uint64) {
	s.updateLocked(now)
	s.wakeLocked()
}

// updateLocked updates failed after changes of members. now is the number of the newest attempt.
func (s *set) updateLocked(now uint64) {
	switch {
	case s.failing > 0 && s.failing == len(s.members):
		s.last, s.down = s.textLocked(), now
		s.failed.Store(true)
	case s.failed.Load(): // also attempts under way may have failed because of it
		s.down, s.shown = now, nil
		s.failed.Store(false)
	}
}

func (s *set) wakeLocked() {
	for q := range s.questions {
		q.wake()
	}
}

// textLocked returns the text of the failing witness whose pod has the first name.
func (s *set) textLocked() string {
	if s.shown == nil {
		for m := range s.members {
			if s.shown == nil || m.pod < s.shown.pod {
				s.shown = m
			}
		}
	}
	if s.shown.pod == s.name { // of a push or an endpoint
		return s.shown.text
	}
	return s.shown.pod + ": " + s.shown.text
}

// endLocked ends a set. Attempts that wait for it are judged by its last results.
func (s *set) endLocked(now uint64) {
	s.ended = true
	clear(s.members)
	s.failing = 0
	s.changedLocked(now)
}
