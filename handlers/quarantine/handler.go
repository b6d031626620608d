// Package quarantine pauses the probes of a handler that is broken.
//
// Read handler.go first: it wraps the handler and its probes. breaker.go decides when a pause
// begins and when it ends.
package quarantine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/daeace23/prober/probe"
)

// Config configures a [Handler]. Every field may be left zero.
type Config struct {
	// Errors is the number of consecutive failed ticks before a pause. A tick fails if its attempts
	// return an error. 0 means 5.
	Errors int
}

// Handler wraps a handler that may be broken, such as a plugin. It pauses a probe after consecutive ticks
// in which the probe could not be carried out, which saves work and log lines. After the pause it makes
// one trial. If the trial returns no error, the quarantine ends. Results that the target causes, such as
// a Failure or a timeout, are not errors and do not count.
//
// Each probe is counted separately, because a target that makes the plugin trap must not pause other
// probes. Only errors with [probe.ReasonInstantiate], which no target causes, are counted for all probes
// together and pause all of them.
//
// It is safe for concurrent use.
type Handler struct {
	handler probe.Handler
	errors  int     // Config.Errors
	all     breaker // counts errors that no target causes
	bare    bound
}

var (
	_ probe.Preparer = (*Handler)(nil)
	_ io.Closer      = (*Handler)(nil)
)

// New returns h with a quarantine around its probes.
func New(h probe.Handler, cfg Config) *Handler {
	q := &Handler{handler: h, errors: cmp.Or(cfg.Errors, 5)}
	q.bare = bound{owner: q, handler: h}
	return q
}

// Prepare implements [probe.Preparer]. The returned probe has its own quarantine, which has not begun.
func (q *Handler) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	h, err := probe.Prepare(context.Background(), q.handler, config, target)
	if err != nil {
		return nil, err
	}
	return &bound{owner: q, handler: h}, nil
}

// Probe implements [probe.Handler].
func (q *Handler) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	return q.bare.Probe(ctx, req)
}

// Close implements [io.Closer].
func (q *Handler) Close() error {
	if c, ok := q.handler.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Error is the error of a probe that is in quarantine.
type Error struct {
	Until time.Time // time of the next trial
	Err   error     // the last error before the quarantine
	// Skipped is true if no attempt was made. Otherwise Err is the error of the attempt that
	// began the quarantine, or of a later attempt of the same tick.
	Skipped bool
}

// Error returns the text of Err. If the attempt was skipped, the text begins with the end of the
// quarantine.
func (e *Error) Error() string {
	if !e.Skipped {
		return e.Err.Error()
	}
	return fmt.Sprintf("in quarantine until %s: %v", e.Until.UTC().Format(time.RFC3339), e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Is makes the error of a skipped attempt match [probe.ErrNoSlot].
func (e *Error) Is(target error) bool { return e.Skipped && target == probe.ErrNoSlot }

// QuarantinedUntil returns the time of the next trial.
func (e *Error) QuarantinedUntil() time.Time { return e.Until }

// bound is one probe.
type bound struct {
	owner   *Handler
	handler probe.Handler
	own     breaker
}

var _ probe.Wrapper = (*bound)(nil)

// Unwrap implements [probe.Wrapper]. A quarantine is not inherited, because its cause was another handler
// or another secret.
func (b *bound) Unwrap() probe.Handler { return b.handler }

// Probe implements [probe.Handler]. Only the first attempt of a tick can be skipped.
func (b *bound) Probe(ctx context.Context, req probe.Request) (outcome probe.Outcome, err error) {
	all := attempt{limit: b.owner.errors, first: req.Attempt <= 1, pause: minPause}
	own := attempt{limit: b.owner.errors, first: req.Attempt <= 1, pause: max(minPause, req.Spec.Period)}
	if err := b.owner.all.begin(&all); err != nil {
		return probe.Outcome{}, err
	}
	defer func() { // deferred, because a trial must end even if the handler ends the goroutine
		until := later(b.owner.all.end(&all, err), b.own.end(&own, err))
		if err != nil && !until.IsZero() && !errors.Is(err, probe.ErrNoSlot) {
			err = &Error{Until: until, Err: err}
		}
	}()
	if err := b.own.begin(&own); err != nil {
		return probe.Outcome{}, err
	}
	own.health, err = broken, probe.ErrGoexit // overwritten if the handler returns
	outcome, err = probe.Call(ctx, b.handler, req)
	all.health, own.health = healthOf(ctx, err)
	return outcome, err
}

// healthOf returns what the error of an attempt says about the health of the handler: all for the handler
// as a whole, own for the probe.
func healthOf(ctx context.Context, err error) (all, own health) {
	switch {
	case err == nil, ctx.Err() == context.DeadlineExceeded && errors.Is(err, context.DeadlineExceeded):
		return healthy, healthy
	case ctx.Err() != nil, errors.Is(err, probe.ErrNoSlot): // cancelled or skipped
		return unknown, unknown
	case probe.IsHostTrouble(err):
		return unknown, unknown
	case probe.ReasonOf(err) == probe.ReasonInstantiate:
		return broken, unknown
	default:
		return healthy, broken
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
