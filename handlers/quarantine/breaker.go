package quarantine

import (
	"sync"
	"time"
)

// A pause doubles with every trial that ends in an error, from minPause, or the probe's period
// if that is longer, up to maxPause.
const (
	minPause = 30 * time.Second
	maxPause = 10 * time.Minute
)

// health is what an attempt says about a handler.
type health uint8

const (
	unknown health = iota
	healthy
	broken
)

// attempt is one attempt as a breaker sees it.
type attempt struct {
	cfg    *Config
	first  bool          // of its tick
	pause  time.Duration // the first one, if this attempt begins a quarantine
	trial  bool          // the one that is made after a pause
	health health
}

// breaker is a circuit breaker: it counts consecutive ticks that ended in an error, and skips
// attempts during a pause.
type breaker struct {
	mu     sync.Mutex
	errors int
	pause  time.Duration // the last one; 0 outside of a quarantine
	until  time.Time     // its end
	trying bool          // a trial is under way
	cause  error         // the last error that counted
}

// begin returns the error of an attempt that is to be skipped.
func (b *breaker) begin(a *attempt) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pause == 0 || !a.first {
		return nil
	}
	if b.trying || time.Now().Before(b.until) {
		return &Error{Until: b.until, Err: b.cause, Skipped: true}
	}
	a.trial, b.trying = true, true
	return nil
}

// end counts an attempt with its error. It returns when the quarantine ends, the zero time if
// there is none.
func (b *breaker) end(a *attempt, err error) (until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.trial {
		b.trying = false
	}
	switch a.health {
	case healthy:
		b.errors, b.pause, b.until, b.cause = 0, 0, time.Time{}, nil
	case broken:
		b.countLocked(a, err)
	}
	return b.until
}

// countLocked counts an error. During a quarantine only the error of the trial counts: other
// attempts began before it.
func (b *breaker) countLocked(a *attempt, err error) {
	if !a.first || b.pause > 0 && !a.trial {
		return
	}
	b.cause = err
	if b.errors++; b.errors < a.cfg.Errors {
		return
	}
	if b.pause == 0 {
		b.pause = a.pause
	} else {
		b.pause = max(a.pause, min(2*b.pause, maxPause))
	}
	jitter := time.Duration(a.cfg.Jitter() * float64(b.pause/5))
	b.until = time.Now().Add(b.pause + jitter)
}
