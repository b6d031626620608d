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
	beat     = 50 * time.Millisecond // interval between beats while attempts are under way
	beatLate = 20 * time.Millisecond // a beat later than this counts as a stall
)

// stallMeter measures how long the agent itself did not run while attempts were under way, because it was
// suspended, throttled or overloaded. A timer fires at every beat while there are attempts; if it is late,
// the delay is lost time. The zero value is ready to use.
type stallMeter struct {
	attempts atomic.Int64 // attempts under way
	lost     atomic.Int64 // lost time of all beats so far, in nanoseconds
	due      atomic.Int64 // when the next beat is due, by [clock]; 0: no beat

	mu    sync.Mutex
	timer *time.Timer // nil before the first attempt
}

// clock returns monotonic nanoseconds since origin. It never returns 0.
func clock() int64 { return int64(time.Since(origin)) }

var origin = time.Now().Add(-time.Second)

// stallWatch measures the lost time of one attempt.
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

// lost returns how long the agent did not run since the start of the measurement.
func (w stallWatch) lost() time.Duration { return lostBetween(w.start, w.meter.read()) }

// restart restarts the measurement.
func (w *stallWatch) restart() { w.start = w.meter.read() }

// end ends the attempt.
func (w stallWatch) end() { w.meter.attempts.Add(-1) }

// stallReading is a reading of a [stallMeter].
type stallReading struct{ now, lost, due int64 }

func (m *stallMeter) read() stallReading { return stallReading{clock(), m.lost.Load(), m.due.Load()} }

// total returns the time lost so far, including the delay of the next beat.
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
	runtime.Gosched() // wait for a processor as attempts do, because timers run before other goroutines
	m.mu.Lock()
	defer m.mu.Unlock()
	now := clock()
	if late := now - m.due.Load(); late > int64(beatLate) {
		m.lost.Add(late) // before due changes: an attempt that ends now must not miss it
	}
	m.due.Store(0)
	if m.attempts.Load() > 0 {
		m.armLocked(now)
	}
}

// lateReasons are the reasons of failures that a stall of the agent can cause.
var lateReasons = []probe.Reason{
	probe.ReasonDeadline, probe.ReasonConnectTimeout, probe.ReasonDNS, probe.ReasonTLS, probe.ReasonProtocol, probe.ReasonBody,
}

// isStallCandidate reports whether o may be a failure caused by a stall: the deadline has passed before the
// attempt has read the target's answer.
func isStallCandidate(ctx context.Context, o probe.Outcome) bool {
	deadline, ok := ctx.Deadline()
	return ok && o.Result == probe.Failure && slices.Contains(lateReasons, o.Reason) && !time.Now().Before(deadline)
}

// minStallToDiscard returns the minimum lost time that makes a missed deadline an error of the agent rather
// than a failure of the target.
func minStallToDiscard(timeout time.Duration) time.Duration { return max(timeout/4, beat) }

func stallError(lost, timeout time.Duration, o probe.Outcome) error {
	return &probe.Error{Reason: probe.ReasonHostStall, Err: fmt.Errorf(
		"the agent did not run for %v of an attempt with a timeout of %v: %s", lost.Round(time.Millisecond), timeout, o.Output)}
}
