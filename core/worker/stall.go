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
	beat       = 50 * time.Millisecond // between two beats while attempts are under way
	beatLate   = 20 * time.Millisecond // a beat that comes later than this was held up
	stallsKept = 128                   // enough for the longest timeouts of a starved agent
)

// stallMeter measures how long the agent itself did not run while attempts were under
// way: because it was stopped, starved of processor time, or had more to do than its
// processors could. A timer beats while there are attempts, and what it is late by was
// lost. The zero value is ready to use.
type stallMeter struct {
	attempts atomic.Int64 // under way

	mu     sync.Mutex
	timer  *time.Timer // nil before the first attempt
	armed  bool
	due    time.Time // of the next beat; valid while armed
	stalls []span    // the last ones, oldest first
}

// span is a stretch of time.
type span struct{ from, to time.Time }

// stallWatch is one attempt that is measured.
type stallWatch struct {
	meter *stallMeter
	start time.Time
}

func (m *stallMeter) begin() stallWatch {
	now := time.Now()
	if m.attempts.Add(1) == 1 {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.armLocked(now)
	}
	return stallWatch{m, now}
}

// end ends the attempt.
func (w stallWatch) end() { w.meter.attempts.Add(-1) }

// lost returns how much of the attempt's time so far the agent did not run.
func (w stallWatch) lost() time.Duration { return w.meter.lost(span{w.start, time.Now()}) }

// armLocked lets the meter beat, if it does not.
func (m *stallMeter) armLocked(now time.Time) {
	if m.armed {
		return
	}
	m.armed, m.due = true, now.Add(beat)
	if m.timer == nil {
		m.timer = time.AfterFunc(beat, m.beat)
	} else {
		m.timer.Reset(beat)
	}
}

func (m *stallMeter) beat() {
	runtime.Gosched() // a timer's goroutine overtakes those that wait for a processor; attempts do not
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Sub(m.due) > beatLate {
		if len(m.stalls) == stallsKept {
			m.stalls = slices.Delete(m.stalls, 0, 1)
		}
		m.stalls = append(m.stalls, span{m.due, now})
	}
	m.armed = false
	if m.attempts.Load() > 0 {
		m.armLocked(now)
	}
}

// lost returns how much of s the agent did not run.
func (m *stallMeter) lost(s span) (lost time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, stall := range m.stalls {
		lost += stall.overlap(s)
	}
	if m.armed && s.to.Sub(m.due) > beatLate { // the beat of this moment is yet to come
		lost += span{m.due, s.to}.overlap(s)
	}
	return lost
}

func (s span) overlap(o span) time.Duration {
	from, to := s.from, s.to
	if o.from.After(from) {
		from = o.from
	}
	if o.to.Before(to) {
		to = o.to
	}
	return max(to.Sub(from), 0)
}

// lateReasons are those of Failures that an agent which stands still brings about itself.
var lateReasons = []probe.Reason{
	probe.ReasonDeadline, probe.ReasonConnectTimeout, probe.ReasonTLS, probe.ReasonProtocol, probe.ReasonBody,
}

// mayBeStalled reports whether o is what an attempt answers whose deadline has passed
// before its target's answer was read.
func mayBeStalled(ctx context.Context, o probe.Outcome) bool {
	deadline, ok := ctx.Deadline()
	return ok && o.Result == probe.Failure && slices.Contains(lateReasons, o.Reason) && !time.Now().Before(deadline)
}

// worthless returns how much of an attempt's time must be lost for its time-out to say
// nothing of the target.
func worthless(timeout time.Duration) time.Duration { return max(timeout/4, beat) }

func stallError(lost, timeout time.Duration, o probe.Outcome) error {
	return &probe.Error{Reason: probe.ReasonHostStall, Err: fmt.Errorf(
		"the agent did not run for %v of an attempt with a timeout of %v: %s", lost.Round(time.Millisecond), timeout, o.Output)}
}
