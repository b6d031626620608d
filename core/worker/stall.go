package worker

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
// beat while there are attempts; the time by which it is late is lost. The zero value is ready
// to use.
type stallMeter struct {
	attempts atomic.Int64 // under way
	lost     atomic.Int64 // nanoseconds, by all beats so far
	due      atomic.Int64 // of the next beat, by [clock]; 0: there is none

	mu    sync.Mutex
	timer *time.Timer // nil before the first attempt
}

// clock returns the time as nanoseconds since some moment. Never 0.
func clock() int64 { return int64(time.Since(origin)) }

var origin = time.Now().Add(-time.Second)

// stallWatch measures one attempt.
type stallWatch struct {
	meter       *stallMeter
	start, lost int64 // the beginning of the attempt, and the lost time until then
}

func (m *stallMeter) begin() stallWatch {
	now := clock()
	if m.attempts.Add(1) == 1 {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.due.Load() == 0 {
			m.armLocked(now)
		}
	}
	return stallWatch{m, now, m.lostBy(now)}
}

// end ends the attempt.
func (w stallWatch) end() { w.meter.attempts.Add(-1) }

// lostBy returns for how much of the attempt, until now, the agent did not run.
func (w stallWatch) lostBy(now int64) time.Duration {
	return time.Duration(min(w.meter.lostBy(now)-w.lost, now-w.start))
}

// lostBy returns the lost time of all beats, and that by which the next beat is late now.
func (m *stallMeter) lostBy(now int64) int64 {
	lost, due := m.lost.Load(), m.due.Load()
	if late := now - due; due != 0 && late > int64(beatLate) {
		lost += late
	}
	return lost
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
	runtime.Gosched() // a timer is run before goroutines that wait for a processor; an attempt is not
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

// worthless returns the least lost time after which a timeout of an attempt says nothing about
// the target.
func worthless(timeout time.Duration) time.Duration { return max(timeout/4, beat) }

func stallError(lost, timeout time.Duration, o probe.Outcome) error {
	return &probe.Error{Reason: probe.ReasonHostStall, Err: fmt.Errorf(
		"the agent did not run for %v of an attempt with a timeout of %v: %s", lost.Round(time.Millisecond), timeout, o.Output)}
}
