package probe

import (
	"context"

	"github.com/daeace23/prober/internal/suspend"
)

// SuspendTimeout suspends the timeout of an attempt while its handler waits for a slot, so that waiting
// does not use up the target's time to answer. Until resume is called, ctx has no deadline, and only ends
// if it is cancelled because the probe was stopped, paused or changed. resume restarts the timeout with its
// full length.
//
// ok is false if ctx has ended, has a deadline of its own, or does not come from an attempt of a worker.
// Then nothing has changed, and the end of ctx limits the wait.
func SuspendTimeout(ctx context.Context) (resume func(), ok bool) {
	s, ok := ctx.Value(suspend.Key{}).(suspend.Context)
	if !ok {
		return nil, false
	}
	own, _ := s.Deadline()
	if deadline, _ := ctx.Deadline(); !deadline.Equal(own) {
		return nil, false
	}
	return s.Suspend()
}
