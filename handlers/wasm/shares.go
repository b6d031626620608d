package wasm

import (
	"sync"
	"time"

	"github.com/daeace23/prober/plugin"
)

// standing is what is known of a probe, which says how long its next attempt will hold
// an instance.
type standing int32

const (
	untried standing = iota // no attempt has ended yet, or one was slow after a prompt one
	prompt                  // the last one was done in good time
	slow                    // the last one took nearly all of its time, and the one before was not prompt: its target may be a black hole
)

// standingOf is that of a probe whose last attempt took so much of its timeout.
func standingOf(took, timeout time.Duration) standing {
	if took > timeout-timeout/10 {
		return slow
	}
	return prompt
}

// after returns the standing of a probe that had s before an attempt which, taken alone,
// gives it now. One slow attempt of a prompt probe may be this host's own bad moment: the
// probe counts as untried, so that it does not have to share a quarter with black holes.
func (s standing) after(now standing) standing {
	if s == prompt && now == slow {
		return untried
	}
	return now
}

// shares keeps the attempts that wait for a black hole, each until its deadline, from
// holding all that there is: those that were slow the last time get a quarter at most,
// those of which nothing is known a half, and both together a half. What is left over is
// for those that were prompt.
type shares struct {
	mu    sync.Mutex
	total uint64
	held  [slow + 1]uint64 // by standing; not counted of the prompt
}

// take takes n for an attempt, and reports whether it may have them. A standing that
// holds nothing may always take.
func (s *shares) take(of standing, n uint64) bool {
	if of == prompt {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total == 0 {
		return true
	}
	mine := s.held[of] + n
	if s.held[of] > 0 && (mine > s.most(of) || s.held[untried]+s.held[slow]+n > s.total/2) {
		return false
	}
	s.held[of] = mine
	return true
}

// most is what all attempts of a standing may hold.
func (s *shares) most(of standing) uint64 {
	if of == slow {
		return s.total / 4
	}
	return s.total / 2
}

// give gives back what was taken.
func (s *shares) give(of standing, n uint64) {
	if of == prompt {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total > 0 {
		s.held[of] -= n
	}
}

// change makes what was taken as from into to, whether or not there is room: it has been
// taken elsewhere already, and keeps out those that come later.
func (s *shares) change(of standing, from, to uint64) {
	if of == prompt {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total > 0 {
		s.held[of] += to - from
	}
}

// resize changes the total, which neither is nor becomes 0.
func (s *shares) resize(total uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total = total
}

// admit takes the share of a call that is to begin, and reports whether there is one.
// leave gives it back.
func (c *call) admit() bool {
	if !c.plugin.shares.take(c.standing, 1) {
		c.hit(plugin.LimitInstances)
		return false
	}
	c.share = c.plugin.initialMemory().share()
	if !c.host.shares.take(c.standing, c.share) {
		c.plugin.shares.give(c.standing, 1)
		c.hit(plugin.LimitTotalMemory)
		return false
	}
	return true
}

// holds notes what the memory of the call's instance takes of the budget now: an instance
// may have grown in an earlier call, and grows in this one. c may be nil.
func (c *call) holds(taken bytesOf) {
	if c == nil {
		return
	}
	share := taken.share()
	c.host.shares.change(c.standing, c.share, share)
	c.share = share
}

func (c *call) leave() {
	c.host.shares.give(c.standing, c.share)
	c.plugin.shares.give(c.standing, 1)
}
