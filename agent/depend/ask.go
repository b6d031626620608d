package depend

import (
	"time"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/manager"
)

const (
	// patience is how long an attempt waits for witnesses. Witnesses that have made no attempt by then are
	// ignored.
	patience = config.MaxWitnessTimeout + time.Second
	// pause is the minimum time between two requests to probe the witnesses of a set, so that many failing
	// targets do not flood them.
	pause = 200 * time.Millisecond
	// settling is how long after a set was made attempts wait for its first witness.
	settling = 15 * time.Second
)

// question is the question of a failed attempt whether one of sets has failed.
type question struct {
	began, ended uint64 // the number of the attempt, and the number of the newest attempt at its end
	sets         []*set
	news         chan struct{} // receives after changes of sets
}

func (q *question) wake() {
	select {
	case q.news <- struct{}{}:
	default:
	}
}

// verdict is the answer to a question.
type verdict struct {
	set   *set // that has failed; nil if none has
	fault string
	waits bool          // it is too early for a verdict
	open  []manager.Key // witnesses to be triggered
	again time.Duration // when to judge again without news
}

// ask returns a set that has failed, and why, for the attempt with the number began. All witnesses of the set
// must have failed at one moment since that attempt began, or each since it ended. ask returns nil if a
// witness of each set has succeeded since the attempt ended, or if nothing is known. It triggers witnesses
// without an attempt since then, and returns at limit at the latest.
func (j *Judge) ask(limit time.Time, began uint64, sets ...*set) (*set, string) {
	q := &question{began: began, ended: j.begun.Add(1), sets: sets, news: make(chan struct{}, 1)}
	j.enter(q)
	defer j.leave(q)
	timeout := time.NewTimer(time.Until(limit))
	defer timeout.Stop()
	for {
		v := j.judge(q)
		if !v.waits {
			return v.set, v.fault
		}
		for _, key := range v.open {
			_ = j.trigger(key) // an error means that the witness has ended
		}
		again := time.NewTimer(v.again)
		select {
		case <-q.news:
		case <-again.C:
		case <-timeout.C:
			again.Stop()
			return j.giveUp(q)
		}
		again.Stop()
	}
}

func (j *Judge) enter(q *question) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range q.sets {
		s.questions[q] = struct{}{}
		s.waiting.Store(int32(len(s.questions)))
	}
}

func (j *Judge) leave(q *question) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range q.sets {
		delete(s.questions, q)
		s.waiting.Store(int32(len(s.questions)))
	}
}

// judge answers q by the results so far.
func (j *Judge) judge(q *question) (v verdict) {
	j.mu.Lock()
	defer j.mu.Unlock()
	v.again = patience
	for _, s := range q.sets {
		fault, waits := s.judgeLocked(q)
		if fault != "" {
			return verdict{set: s, fault: fault}
		}
		v.waits = v.waits || waits
	}
	for _, s := range q.sets {
		if _, waits := s.judgeLocked(q); waits {
			s.openLocked(q, &v)
		}
	}
	return v
}

// judgeLocked returns why s has failed; "" if it has not, or if it is too early for a verdict.
func (s *set) judgeLocked(q *question) (fault string, waits bool) {
	switch {
	case s.down >= q.began: // also if the witnesses have recovered meanwhile
		return s.last, false
	case s.ended, s.succeeded.Load() >= q.ended:
		return "", false
	case len(s.members) == 0:
		return "", time.Since(s.made) < settling
	default:
		return "", true
	}
}

// openLocked adds the witnesses to v that must be triggered: those without an attempt since q, and without
// one under way.
func (s *set) openLocked(q *question, v *verdict) {
	if rest := pause - time.Since(s.asked); rest > 0 {
		v.again = min(v.again, rest)
		return
	}
	v.again = min(v.again, pause)
	for m := range s.members {
		if m.isIdle(q) {
			v.open = append(v.open, m.key)
			s.asked = time.Now()
		}
	}
}

// isIdle reports whether m has made no attempt since q, and makes none.
func (m *member) isIdle(q *question) bool {
	return m.began.Load() < q.ended && m.watch.flying.Load() == 0
}

// giveUp answers q without the witnesses that make no attempts. No attempt waits for them again before their
// next attempt, as they may be paused. Witnesses with an attempt under way have their last result.
func (j *Judge) giveUp(q *question) (*set, string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range q.sets {
		if _, waits := s.judgeLocked(q); !waits {
			continue
		}
		for m := range s.members {
			if m.isIdle(q) {
				s.moveLocked(m, unlisted)
			}
		}
		if len(s.members) == 0 {
			s.failed.Store(false) // before changedLocked, as a set has not failed because its witnesses are paused
		}
		s.changedLocked(j.begun.Load())
		if s.failed.Load() {
			return s, s.last
		}
	}
	return nil, ""
}
