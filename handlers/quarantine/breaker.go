package quarantine

import (
	"sync"
	"time"

	"github.com/daeace23/prober/internal/pace"
)

// Pauses begin at minPause, or at the probe's period if that is longer. They double with every failed
// trial, up to maxPause.
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

// attempt has the properties of one attempt that matter to a breaker.
type attempt struct {
	limit  int           // number of errors that begins a quarantine
	first  bool          // first attempt of its tick
	pause  time.Duration // first pause, if this attempt begins a quarantine
	trial  bool          // made after a pause
	health health
}

// breaker is a circuit breaker. It counts consecutive ticks that ended in an error, and skips
// attempts during a pause.
type breaker struct {
	mu     sync.Mutex
	errors int
	pause  time.Duration // the last pause; 0 outside of a quarantine
	until  time.Time     // end of the pause
	trying bool          // a trial is in flight
	cause  error         // the last counted error
}

// begin begins an attempt. It returns an error if the attempt must be skipped.
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

// end counts an attempt with its error. It returns the end of the quarantine, or the zero time if there
// is none.
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

// countLocked counts an error. During a quarantine it counts only the error of the trial, because all
// other attempts began before the quarantine.
func (b *breaker) countLocked(a *attempt, err error) {
	if !a.first || b.pause > 0 && !a.trial {
		return
	}
	b.cause = err
	if b.errors++; b.errors < a.limit {
		return
	}
	if b.pause == 0 {
		b.pause = a.pause
	} else {
		b.pause = max(a.pause, min(2*b.pause, maxPause))
	}
	// A jitter of up to a fifth prevents probes that failed together from resuming together.
	b.until = time.Now().Add(pace.Jitter(b.pause, b.pause+b.pause/5))
}
