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

// minPause is the minimum time from the end of an attempt to the next one of the same probe. Requests in
// between get the same result again, so that peers with access to the port cannot cause load.
const minPause = 100 * time.Millisecond

var errRemoved = errors.New("the probe was changed or removed, or prober sidecar ends")

// Verdict is the result of a request.
type Verdict struct {
	Result probe.Result
	Text   string // for people: the output, or the error
	// Failed means that the kubelet must count a failure.
	Failed bool
	// Undecided means that the attempt ended in an error that does not count: the kubelet must discard the
	// result.
	Undecided bool
}

// requestedProbe is a probe that requests run.
type requestedProbe struct {
	config   declared.Probe
	resolved string // config of the handler with secrets; only used for comparison
	handler  probe.Handler
	request  probe.Request
	observer worker.ProbeObserver
	log      *slog.Logger

	ctx    context.Context // of attempts; ends with close
	cancel context.CancelCauseFunc
	flying sync.WaitGroup

	mu     sync.Mutex
	flight *flight // the current or the last flight; nil at first

	last probe.Result   // owned by the current flight, as are the fields below
	told results.Result // last result reported to the observer
	had  bool           // there was a flight before
}

// flight is a run of attempts of a probe, at most [probe.MaxAttempts], and the requests that wait for it.
// See RATIONALE.md, "Why does a caller of `prober sidecar` not end its attempt?"
type flight struct {
	done    chan struct{} // closed at its end
	ended   time.Time     // set before done is closed, like verdict
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

// wait returns the verdict, or the cause of ctx if that ends first. The flight continues after ctx ends, as
// other requests may wait for it.
func (f *flight) wait(ctx context.Context) (Verdict, error) {
	select {
	case <-f.done:
		return f.verdict, nil
	case <-ctx.Done():
		return Verdict{}, context.Cause(ctx)
	}
}

// fly returns the current flight, or the last one if it has just ended, or starts one. It must not be called
// after close.
func (a *requestedProbe) fly() *flight {
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

// close ends the current flight and releases the handler.
func (a *requestedProbe) close() {
	a.cancel(errRemoved)
	a.flying.Wait()
	probe.Release(a.handler)
	a.observer.Close()
}

// try makes an attempt and retries after errors, as a worker's tick does.
func (a *requestedProbe) try() Verdict {
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
		v.Text = v.Result.String() // the output has the target's body, which peers must not see
	}
	a.report(&t, v)
	return v
}

// once makes one attempt with the timeout of the probe.
func (a *requestedProbe) once(req probe.Request) (probe.Outcome, error) {
	ctx, cancel := context.WithTimeout(a.ctx, req.Spec.Timeout)
	defer cancel()
	return worker.Attempt(ctx, a.handler, req)
}

// verdictOf returns the verdict of an attempt. As in a worker, an error decides nothing, unless errorPolicy
// counts it. An error caused by prober's host never counts.
func verdictOf(o probe.Outcome, err error, spec probe.Spec) Verdict {
	if err != nil {
		counts := spec.ErrorPolicy == probe.CountAsFailure && !probe.IsHostTrouble(err) && !errors.Is(err, probe.ErrNoSlot)
		return Verdict{Result: probe.Unknown, Text: err.Error(), Failed: counts, Undecided: !counts}
	}
	ok := o.Result == probe.Success || o.Result == probe.Warning && !spec.WarningIsFailure
	return Verdict{Result: o.Result, Text: o.Output, Failed: !ok}
}

// report notifies the observer, and logs a result that differs from the last one, as the kubelet's events do
// not have the text.
func (a *requestedProbe) report(t *worker.Tick, v Verdict) {
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
