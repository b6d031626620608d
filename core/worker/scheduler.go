package worker

import "time"

// Scheduler makes the timers of workers. Its methods, and those of its timers, are called with
// locks held: they must not block, and must not call f or anything of core.
type Scheduler interface {
	// NewTimer returns a stopped timer. Each time it fires it calls f in a goroutine of its
	// own, so that no probe waits for another.
	NewTimer(f func()) Timer
}

// Timer is the timer of one worker.
type Timer interface {
	// Reset makes the timer fire once after d. An earlier Reset has no effect any more.
	Reset(d time.Duration)
	// Stop stops the timer. A call of f may be under way.
	Stop()
}

// RuntimeTimers is the [Scheduler] of Go's runtime timers: a probe has no goroutine between two
// ticks.
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
