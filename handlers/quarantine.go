package handlers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/daeace23/prober/probe"
)

// QuarantineConfig configures a [Quarantine]. Every field may be left zero.
type QuarantineConfig struct {
	// Errors is how many ticks running must end in an error for a quarantine to begin.
	// The attempts of a tick count once. 0 means 5.
	Errors int
	// Pause is the first pause; a probe with a longer period pauses for a period. It
	// doubles with every trial that ends in an error, up to MaxPause. 0 means 30 s and
	// 10 min.
	Pause, MaxPause time.Duration
	// Now is the time. It is called with a lock held and must not block. Nil means
	// time.Now.
	Now func() time.Time
	// Jitter returns a number from 0 up to 1: what part of a fifth is added to a pause,
	// so that probes that fell ill together do not come back together. It is called by
	// several goroutines, with a lock held, and must not block. Nil means a random one.
	Jitter func() float64
}

// Quarantine is a handler around one that may be broken: a plugin. It leaves a probe
// alone for a while when it could not be carried out several times running, so that
// what is broken costs little and fills no log. Then it lets one trial through, and a
// trial that ends without an error ends the quarantine. What the target does, a Failure
// or a deadline, is no error and has no part in it.
//
// Every probe counts for itself: a target that makes the plugin trap must not silence
// the others. Only errors with [probe.ReasonInstantiate], which no target causes, count
// for all probes together and pause them all.
//
// It is safe for concurrent use.
type Quarantine struct {
	handler probe.Handler
	cfg     QuarantineConfig
	all     streak // of errors that are the plugin's own
	bare    quarantined
}

var (
	_ probe.Preparer = (*Quarantine)(nil)
	_ io.Closer      = (*Quarantine)(nil)
)

// NewQuarantine returns h with its probes watched.
func NewQuarantine(h probe.Handler, cfg QuarantineConfig) *Quarantine {
	cfg.Errors = cmp.Or(cfg.Errors, 5)
	cfg.Pause = cmp.Or(cfg.Pause, 30*time.Second)
	cfg.MaxPause = cmp.Or(cfg.MaxPause, 10*time.Minute)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Jitter == nil {
		cfg.Jitter = rand.Float64
	}
	q := &Quarantine{handler: h, cfg: cfg}
	q.bare = quarantined{of: q, handler: h}
	return q
}

// Unwrap returns the handler inside.
func (q *Quarantine) Unwrap() probe.Handler { return q.handler }

// Prepare implements [probe.Preparer]. What it returns begins afresh.
func (q *Quarantine) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	h := q.handler
	if p, ok := h.(probe.Preparer); ok {
		var err error
		if h, err = p.Prepare(config, target); err != nil {
			return nil, err
		}
	}
	return &quarantined{of: q, handler: h}, nil
}

// Probe implements [probe.Handler].
func (q *Quarantine) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	return q.bare.Probe(ctx, req)
}

// Close implements [io.Closer].
func (q *Quarantine) Close() error {
	if c, ok := q.handler.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// QuarantineError is the error of a probe that is in quarantine.
type QuarantineError struct {
	Until time.Time // when there will be a trial
	Err   error     // the last before the quarantine
	// Skipped says that no attempt was made. Else the error is that of an attempt which
	// began the quarantine, or went on in the same tick.
	Skipped bool
}

// Error returns the text of the error inside; that of an attempt that was skipped says
// why.
func (e *QuarantineError) Error() string {
	if !e.Skipped {
		return e.Err.Error()
	}
	return fmt.Sprintf("in quarantine until %s: %v", e.Until.UTC().Format(time.RFC3339), e.Err)
}

// Unwrap returns the error inside.
func (e *QuarantineError) Unwrap() error { return e.Err }

// Is makes the error of a skipped attempt match [probe.ErrNoSlot].
func (e *QuarantineError) Is(target error) bool { return e.Skipped && target == probe.ErrNoSlot }

// QuarantinedUntil returns when there will be a trial.
func (e *QuarantineError) QuarantinedUntil() time.Time { return e.Until }

// quarantined is one probe.
type quarantined struct {
	of      *Quarantine
	handler probe.Handler
	own     streak
}

var (
	_ Inheritor           = (*quarantined)(nil)
	_ Trier               = (*quarantined)(nil)
	_ probe.Releaser      = (*quarantined)(nil)
	_ probe.SecretKeeper  = (*quarantined)(nil)
	_ probe.SecretChecker = (*quarantined)(nil)
)

// Inherit implements [Inheritor] for the handler inside. The quarantine itself begins
// afresh: it was another handler that broke down, or one with another secret.
func (p *quarantined) Inherit(from probe.Handler) {
	if old, ok := from.(*quarantined); ok {
		from = old.handler
	}
	probe.Inherit(p.handler, from)
}

// Try implements [Trier] for the handler inside.
func (p *quarantined) Try(ctx context.Context) error {
	if t, ok := p.handler.(Trier); ok {
		return t.Try(ctx)
	}
	return nil
}

// CheckSecrets implements [probe.SecretChecker] for the handler inside.
func (p *quarantined) CheckSecrets(fields []string) error {
	return probe.CheckSecrets(p.handler, fields)
}

// KeepSecret implements [probe.SecretKeeper] for the handler inside.
func (p *quarantined) KeepSecret(redact func(text string) string) {
	if k, ok := p.handler.(probe.SecretKeeper); ok {
		k.KeepSecret(redact)
	}
}

// Release implements [probe.Releaser] for the handler inside.
func (p *quarantined) Release() { probe.Release(p.handler) }

// Probe implements [probe.Handler]. The attempts that follow the first of a tick are
// never held back: the tick has begun.
func (p *quarantined) Probe(ctx context.Context, req probe.Request) (outcome probe.Outcome, err error) {
	cfg := &p.of.cfg
	all := turn{cfg: cfg, first: req.Attempt <= 1, pause: cfg.Pause}
	own := turn{cfg: cfg, first: req.Attempt <= 1, pause: max(cfg.Pause, req.Spec.Period)}
	if err := p.of.all.begin(&all); err != nil {
		return probe.Outcome{}, err
	}
	defer func() {
		until := later(p.of.all.end(&all, err), p.own.end(&own, err))
		if err != nil && !until.IsZero() && !errors.Is(err, probe.ErrNoSlot) {
			err = &QuarantineError{Until: until, Err: err}
		}
	}()
	if err := p.own.begin(&own); err != nil {
		return probe.Outcome{}, err
	}
	outcome, err = p.handler.Probe(ctx, req)
	switch {
	case err == nil, ctx.Err() == context.DeadlineExceeded && errors.Is(err, context.DeadlineExceeded):
		all.said, own.said = well, well
	case ctx.Err() != nil, errors.Is(err, probe.ErrNoSlot): // nobody wants to know any more, or there was no attempt
	case probe.IsHostTrouble(err): // says nothing of the handler
	case probe.ReasonOf(err) == probe.ReasonInstantiate:
		all.said = ill
	default:
		all.said, own.said = well, ill
	}
	return outcome, err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// said is what an attempt says of the health of whom a streak belongs to.
type said uint8

const (
	nothing said = iota
	well
	ill
)

// turn is one attempt as a streak sees it.
type turn struct {
	cfg   *QuarantineConfig
	first bool          // of its tick
	pause time.Duration // the first, if it comes to that
	trial bool          // the one that is let through after a pause
	said  said
}

// streak is how many ticks running ended in an error, and what came of it.
type streak struct {
	mu     sync.Mutex
	errors int
	pause  time.Duration // the last one; 0 outside of a quarantine
	until  time.Time     // its end
	trying bool          // a trial is under way
	cause  error         // the last error that counted
}

// begin lets t go on, or returns the error that it is to end with.
func (s *streak) begin(t *turn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pause == 0 || !t.first {
		return nil
	}
	if s.trying || t.cfg.Now().Before(s.until) {
		return &QuarantineError{Until: s.until, Err: s.cause, Skipped: true}
	}
	t.trial, s.trying = true, true
	return nil
}

// end takes in what t said, and returns when the quarantine ends, the zero time where
// there is none. err is t's error.
func (s *streak) end(t *turn, err error) (until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.trial {
		s.trying = false
	}
	switch t.said {
	case well:
		s.errors, s.pause, s.until, s.cause = 0, 0, time.Time{}, nil
	case ill:
		s.illLocked(t, err)
	}
	return s.until
}

// illLocked counts an error. Of those that come in while there is a quarantine only
// that of the trial counts: the others began before it.
func (s *streak) illLocked(t *turn, err error) {
	if !t.first || s.pause > 0 && !t.trial {
		return
	}
	s.cause = err
	if s.errors++; s.errors < t.cfg.Errors {
		return
	}
	if s.pause == 0 {
		s.pause = t.pause
	} else {
		s.pause = max(t.pause, min(2*s.pause, t.cfg.MaxPause))
	}
	jitter := time.Duration(t.cfg.Jitter() * float64(s.pause/5))
	s.until = t.cfg.Now().Add(s.pause + jitter)
}
