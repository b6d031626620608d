package worker

import "time"

// Scheduler makes timers. It is the seam behind which a better scheduler than one runtime
// timer a probe may come. Its methods, and those of its timers, are called with locks
// held: they must neither block nor call f or anything of the core.
type Scheduler interface {
	// NewTimer returns a timer that is not running. Each time it fires, f is called
	// on a goroutine of its own, so that no probe waits for another.
	NewTimer(f func()) Timer
}

// Timer is one probe's alarm clock.
type Timer interface {
	// Reset makes the timer fire once, d from now, instead of when it would have.
	Reset(d time.Duration)
	// Stop makes the timer not fire. A call of f may be under way.
	Stop()
}

// RuntimeTimers is the [Scheduler] that uses the Go runtime's timers. A resting
// probe owns no goroutine.
type RuntimeTimers struct{}

// NewTimer implements [Scheduler].
func (RuntimeTimers) NewTimer(f func()) Timer {
	t := time.AfterFunc(1<<63-1, f)
	t.Stop()
	return runtimeTimer{t}
}

type runtimeTimer struct{ t *time.Timer }

func (r runtimeTimer) Reset(d time.Duration) { r.t.Reset(max(d, 0)) }
func (r runtimeTimer) Stop()                 { r.t.Stop() }

var _ Scheduler = RuntimeTimers{}
