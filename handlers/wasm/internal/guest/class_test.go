package guest

import (
	"context"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm/internal/sched"
)

// Time that an attempt waited for others says nothing of its target, unless it came to
// its deadline all the same: a guest that looks again and again for an answer waits for a
// processor each time.
func TestClassOfAnAttemptThatWaited(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	c := &Call{ctx: ctx, host: &Host{Clock: SystemClock{}}}
	entered := time.Now().Add(-time.Hour)
	c.waited = time.Hour
	for ended, want := range map[error]sched.Class{nil: sched.Prompt, context.Canceled: sched.Prompt, context.DeadlineExceeded: sched.Slow} {
		if got := c.ClassSince(entered, 0, ended); got != want {
			t.Errorf("%v: got %v, want %v", ended, got, want)
		}
	}
	c.waited = 0
	if got := c.ClassSince(entered, 0, nil); got != sched.Slow {
		t.Errorf("without any wait: got %v", got)
	}
}
