package sidecar

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// minPause is the least time from the end of an attempt to the next one of the same probe. Requests in
// between get its result again, so that peers which reach the port cannot cause load.
const minPause = 100 * time.Millisecond

var errRemoved = errors.New("the probe was changed or removed, or prober sidecar ends")

// Verdict is the answer to a request.
type Verdict struct {
	Result probe.Result
	Text   string // for people: the output, or the error
	// Failed is what the kubelet is to count as a failure.
	Failed bool
	// Undecided means that the attempt ended in an error which does not count: the kubelet is to
	// discard the result.
	Undecided bool
}

// asked is one probe that requests ask for.
type asked struct {
	config   declared.Probe
	resolved string // the config of the handler, with secrets; kept only to be compared
	handler  probe.Handler
	request  probe.Request
	observer worker.ProbeObserver
	log      *slog.Logger

	ctx    context.Context // of attempts; ends with close
	cancel context.CancelCauseFunc
	flying sync.WaitGroup

	mu     sync.Mutex
	flight *flight // under way, or the last one; nil at first

	last probe.Result   // owned by the flight under way, as is what follows
	told results.Result // to the observer
	had  bool           // whether there was a flight before
}

// flight is the attempt of one probe, up to [probe.MaxAttempts] of them, and the requests that wait for it.
// See RATIONALE.md, "Why does a caller of `prober sidecar` not end its attempt?"
type flight struct {
	done    chan struct{} // closed at its end
	ended   time.Time     // set before, as is verdict
	verdict Verdict
}

func (f *flight) over() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// wait returns the verdict, or the cause of the end of ctx. The attempt does not end with ctx: others
// may wait for it too.
func (f *flight) wait(ctx context.Context) (Verdict, error) {
	select {
	case <-f.done:
		return f.verdict, nil
	case <-ctx.Done():
		return Verdict{}, context.Cause(ctx)
	}
}

// fly returns the attempt under way, or the last one if it ended just now, or begins one. It must not be
// called after close.
func (a *asked) fly() *flight {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f := a.flight; f != nil && (!f.over() || time.Since(f.ended) < minPause) {
		return f
	}
	f := &flight{done: make(chan struct{})}
	a.flight = f
	a.flying.Go(func() {
		defer close(f.done)
		f.verdict = a.try()
		f.ended = time.Now()
	})
	return f
}

// close ends the attempt under way and releases the handler.
func (a *asked) close() {
	a.cancel(errRemoved)
	a.flying.Wait()
	probe.Release(a.handler)
	a.observer.Close()
}

// try makes an attempt, and another one after an error, as a worker's tick does.
func (a *asked) try() Verdict {
	t := worker.Tick{Start: time.Now(), Handler: a.config.Handler, Run: 1, Threshold: 1}
	t.Due = t.Start
	req := a.request
	req.LastResult = a.last
	for t.Attempts < probe.MaxAttempts {
		t.Attempts++
		req.Attempt = t.Attempts
		t.Outcome, t.Err = a.once(req)
		if t.Err == nil || a.ctx.Err() != nil || errors.Is(t.Err, probe.ErrNoSlot) || probe.ReasonOf(t.Err) == probe.ReasonHostStall {
			break
		}
	}
	t.End = time.Now()
	if a.ctx.Err() != nil {
		return Verdict{Result: probe.Unknown, Text: errRemoved.Error(), Undecided: true}
	}
	v := verdictOf(t.Outcome, t.Err, a.request.Spec)
	if a.config.Handler == "http" && t.Err == nil && !v.Failed {
		v.Text = v.Result.String() // the output has the body of the target, which peers need not see
	}
	a.report(&t, v)
	return v
}

// once makes one attempt with the timeout of the probe.
func (a *asked) once(req probe.Request) (probe.Outcome, error) {
	ctx, cancel := context.WithTimeout(a.ctx, req.Spec.Timeout)
	defer cancel()
	return worker.Attempt(ctx, a.handler, req)
}

// verdictOf returns what requests get. As for a worker, an error decides nothing, unless errorPolicy
// says otherwise; one that the host of prober caused never does.
func verdictOf(o probe.Outcome, err error, spec probe.Spec) Verdict {
	if err != nil {
		counts := spec.ErrorPolicy == probe.CountAsFailure && !probe.IsHostTrouble(err) && !errors.Is(err, probe.ErrNoSlot)
		return Verdict{Result: probe.Unknown, Text: err.Error(), Failed: counts, Undecided: !counts}
	}
	ok := o.Result == probe.Success || o.Result == probe.Warning && !spec.WarningIsFailure
	return Verdict{Result: o.Result, Text: o.Output, Failed: !ok}
}

// report tells the observer, and logs a result that differs from the last one: the kubelet's events
// do not have the text.
func (a *asked) report(t *worker.Tick, v Verdict) {
	if errors.Is(t.Err, probe.ErrNoSlot) {
		a.observer.Skipped(worker.SkipNoSlot, 1)
	} else {
		t.Before, t.After = a.told, a.told
		if t.Counted = !v.Undecided; t.Counted {
			t.Result = results.Success
			if v.Failed {
				t.Result = results.Failure
			}
			t.After = t.Result
		}
		a.told = t.After
		a.observer.Tick(t)
	}
	if a.had && a.last == v.Result {
		return
	}
	a.last, a.had = v.Result, true
	log := a.log.Info
	if v.Result != probe.Success {
		log = a.log.Warn
	}
	log("result changed", "container", a.config.Container, "kind", a.config.Kind.String(), "handler", a.config.Handler,
		"result", v.Result.String(), "output", oneLine(v.Text))
}
