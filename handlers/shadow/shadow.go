// Package shadow compares the answers of a second handler, the shadow, with the answers of the handler that
// decides. [Comparison.Probe] makes the attempts of one tick. handlers/replace chooses the shadow.
package shadow

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/probe"
)

const (
	maxAttempts    = 8                // concurrent attempts of shadows
	defaultTimeout = 10 * time.Second // timeout of attempts without one
)

// Counts counts the ticks by how the shadow's answer compares with the deciding answer.
type Counts struct {
	Agree    uint64 // same answers
	Disagree uint64 // different answers
	Errors   uint64 // the shadow returned an error, and the other handler a result
	Skipped  uint64 // the shadow made no attempt, because too many were in flight
}

// Compared returns the number of ticks with an answer of the shadow.
func (c Counts) Compared() uint64 { return c.Agree + c.Disagree + c.Errors }

// Less returns c minus earlier.
func (c Counts) Less(earlier Counts) Counts {
	return Counts{c.Agree - earlier.Agree, c.Disagree - earlier.Disagree, c.Errors - earlier.Errors, c.Skipped - earlier.Skipped}
}

// Comparison compares answers and counts them. The zero value is ready to use; it is safe for
// concurrent use.
type Comparison struct {
	busy                             atomic.Int64 // attempts of shadows in flight
	agree, disagree, errors, skipped atomic.Uint64
}

// Counts returns the counts so far.
func (c *Comparison) Counts() Counts {
	return Counts{c.agree.Load(), c.disagree.Load(), c.errors.Load(), c.skipped.Load()}
}

// Refused counts a probe whose config the shadow does not accept.
func (c *Comparison) Refused() { c.errors.Add(1) }

// Probe makes an attempt with decides and returns its answer. Concurrently, unless too many are in
// flight, it makes an attempt with shadow, and compares the answers. It does not wait for shadow. It
// calls done once, when shadow is not in use any more.
func (c *Comparison) Probe(ctx context.Context, req probe.Request, decides, shadow probe.Handler, done func()) (outcome probe.Outcome, err error) {
	if c.busy.Add(1) > maxAttempts {
		c.busy.Add(-1)
		c.skipped.Add(1)
		done()
		return decides.Probe(ctx, req)
	}
	decision := make(chan string, 1)
	go func() {
		defer done()
		mine := verdictError // if the shadow does not return
		defer func() {
			c.busy.Add(-1)
			c.count(mine, <-decision)
		}()
		mine = ask(context.WithoutCancel(ctx), shadow, req)
	}()
	verdict := ""
	defer func() { decision <- verdict }() // also if decides panics
	outcome, err = decides.Probe(ctx, req)
	verdict = verdictOf(outcome, err)
	return outcome, err
}

func (c *Comparison) count(shadow, decision string) {
	switch {
	case decision == "": // the tick was skipped or cancelled
	case shadow == "":
		c.skipped.Add(1)
	case shadow == decision:
		c.agree.Add(1)
	case shadow == verdictError:
		c.errors.Add(1)
	default:
		c.disagree.Add(1)
	}
}

const verdictError = "error"

// verdictOf returns a word for an answer, or "" if the answer cannot be compared.
func verdictOf(outcome probe.Outcome, err error) string {
	switch {
	case err == nil:
		return outcome.Result.String()
	case errors.Is(err, context.DeadlineExceeded):
		return probe.Failure.String()
	case errors.Is(err, probe.ErrNoSlot), errors.Is(err, context.Canceled):
		return ""
	default:
		return verdictError
	}
}

// ask returns the shadow's verdict.
func ask(ctx context.Context, shadow probe.Handler, req probe.Request) (verdict string) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(req.Spec.Timeout, defaultTimeout))
	defer cancel()
	req.Trace = nil // only the handler that decides is traced
	return verdictOf(probe.Call(ctx, shadow, req))
}
