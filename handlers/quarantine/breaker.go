package quarantine

import (
	"sync"
	"time"

	"github.com/daeace23/prober/internal/pace"
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
	most   int           // errors until a quarantine
	first  bool          // of its tick
	pause  time.Duration // the first pause, if this attempt begins a quarantine
	trial  bool          // it is made after a pause
	health health
}

// breaker is a circuit breaker. It counts consecutive ticks that ended in an error, and skips
// attempts during a pause.
type breaker struct {
	mu     sync.Mutex
	errors int
	pause  time.Duration // the last pause; 0 outside of a quarantine
	until  time.Time     // its end
	trying bool          // a trial is in flight
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

// end counts an attempt with its error. It returns the end of the quarantine, the zero time if
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

// countLocked counts an error. During a quarantine only the error of the trial counts: any other
// attempt began before the quarantine.
func (b *breaker) countLocked(a *attempt, err error) {
	if !a.first || b.pause > 0 && !a.trial {
		return
	}
	b.cause = err
	if b.errors++; b.errors < a.most {
		return
	}
	if b.pause == 0 {
		b.pause = a.pause
	} else {
		b.pause = max(a.pause, min(2*b.pause, maxPause))
	}
	// Up to a fifth more, so that probes that failed together do not resume together.
	b.until = time.Now().Add(pace.Jitter(b.pause, b.pause+b.pause/5))
}
