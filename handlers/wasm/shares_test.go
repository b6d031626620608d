package wasm

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
	c := &call{ctx: ctx, host: &Host{cfg: Config{Clock: realClock{}}}}
	entered := time.Now().Add(-time.Hour)
	c.waited = time.Hour
	for ended, want := range map[error]sched.Class{nil: sched.Prompt, context.Canceled: sched.Prompt, context.DeadlineExceeded: sched.Slow} {
		if got := c.classSince(entered, 0, ended); got != want {
			t.Errorf("%v: got %v, want %v", ended, got, want)
		}
	}
	c.waited = 0
	if got := c.classSince(entered, 0, nil); got != sched.Slow {
		t.Errorf("without any wait: got %v", got)
	}
}

func TestBudgetCountsWhatIsWrittenAndWhatCouldBe(t *testing.T) {
	b := &budget{total: 100, evict: func() bool { return false }}
	n := 0
	for b.take(bytesOf{written: 10, writable: 50}) {
		n++
	}
	if n != 100*maxOvercommit/50 {
		t.Errorf("%d instances of 50 writable bytes, want %d times the total", n, maxOvercommit)
	}
	if b.inUse() != uint64(10*n) {
		t.Errorf("%d bytes are in use, want what is written", b.inUse())
	}
	b.put(bytesOf{written: 10, writable: 50})
	if b.take(whole(100)) || !b.take(whole(30)) {
		t.Error("what is not shared counts whole")
	}
}

func TestHabit(t *testing.T) {
	var h habit
	const image = 4 << 20
	if got := h.expect(image); got != leastHabit {
		t.Errorf("at first: %d", got)
	}
	h.note(2 << 20)
	if got := h.expect(image); got != 2<<20 {
		t.Errorf("after 2 MiB: %d", got)
	}
	for range 1000 {
		h.note(0)
	}
	if got := h.expect(image); got != leastHabit {
		t.Errorf("after many calls that wrote nothing: %d", got)
	}
	h.note(1 << 30)
	if got := h.expect(image); got != image {
		t.Errorf("more than the image: %d", got)
	}
}
