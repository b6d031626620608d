package engine

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/probe"
)

const (
	beat     = 50 * time.Millisecond // between two beats while attempts are under way
	beatLate = 20 * time.Millisecond // a beat that is later than this counts as a stall
)

// stallMeter measures how long the agent itself did not run while attempts were under way:
// because it was suspended, throttled, or had more work than processors. A timer fires every
// beat while there are attempts. If it is late, that time is lost. The zero value is ready to
// use.
type stallMeter struct {
	attempts atomic.Int64 // under way
	lost     atomic.Int64 // nanoseconds, in all beats so far
	due      atomic.Int64 // of the next beat, by [clock]; 0: there is none

	mu    sync.Mutex
	timer *time.Timer // nil before the first attempt
}

// clock returns the time as nanoseconds since some moment. Never 0.
func clock() int64 { return int64(time.Since(origin)) }

var origin = time.Now().Add(-time.Second)

// stallWatch measures one attempt.
type stallWatch struct {
	meter *stallMeter
	start stallReading
}

func (m *stallMeter) begin() stallWatch {
	if m.attempts.Add(1) == 1 {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.due.Load() == 0 {
			m.armLocked(clock())
		}
	}
	return stallWatch{m, m.read()}
}

// lost returns how long the agent did not run since the beginning of the attempt.
func (w stallWatch) lost() time.Duration { return lostBetween(w.start, w.meter.read()) }

// restart makes w measure from now on.
func (w *stallWatch) restart() { w.start = w.meter.read() }

// end ends the attempt.
func (w stallWatch) end() { w.meter.attempts.Add(-1) }

// stallReading is the state of a [stallMeter] at one moment.
type stallReading struct{ now, lost, due int64 }

func (m *stallMeter) read() stallReading { return stallReading{clock(), m.lost.Load(), m.due.Load()} }

// total returns the time lost so far, with that by which the next beat is late.
func (r stallReading) total() int64 {
	if late := r.now - r.due; r.due != 0 && late > int64(beatLate) {
		return r.lost + late
	}
	return r.lost
}

// lostBetween returns the time lost between two readings.
func lostBetween(start, end stallReading) time.Duration {
	return time.Duration(min(end.total()-start.total(), end.now-start.now))
}

func (m *stallMeter) armLocked(now int64) {
	m.due.Store(now + int64(beat))
	if m.timer == nil {
		m.timer = time.AfterFunc(beat, m.beat)
	} else {
		m.timer.Reset(beat)
	}
}

func (m *stallMeter) beat() {
	runtime.Gosched() // wait for a processor as attempts do: timers run before other goroutines
	m.mu.Lock()
	defer m.mu.Unlock()
	now := clock()
	if late := now - m.due.Load(); late > int64(beatLate) {
		m.lost.Add(late) // before due moves on: an attempt that ends now must not miss it
	}
	m.due.Store(0)
	if m.attempts.Load() > 0 {
		m.armLocked(now)
	}
}

// lateReasons are the reasons of Failures that a stalled agent can cause itself.
var lateReasons = []probe.Reason{
	probe.ReasonDeadline, probe.ReasonConnectTimeout, probe.ReasonDNS, probe.ReasonTLS, probe.ReasonProtocol, probe.ReasonBody,
}

// mayBeStalled reports whether o is the outcome of an attempt whose deadline has passed before
// it has read the answer of its target.
func mayBeStalled(ctx context.Context, o probe.Outcome) bool {
	deadline, ok := ctx.Deadline()
	return ok && o.Result == probe.Failure && slices.Contains(lateReasons, o.Reason) && !time.Now().Before(deadline)
}

// minStallToDiscard returns the lost time from which on a missed deadline is an error of the
// agent instead of a Failure of the target.
func minStallToDiscard(timeout time.Duration) time.Duration { return max(timeout/4, beat) }

func stallError(lost, timeout time.Duration, o probe.Outcome) error {
	return &probe.Error{Reason: probe.ReasonHostStall, Err: fmt.Errorf(
		"the agent did not run for %v of an attempt with a timeout of %v: %s", lost.Round(time.Millisecond), timeout, o.Output)}
}
