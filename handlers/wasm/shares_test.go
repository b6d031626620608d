package wasm

import (
	"context"
	"testing"
	"time"
)

func TestSharesOfThoseThatWait(t *testing.T) {
	s := &shares{total: 100}
	take := func(of standing) (n int) {
		for s.take(of, 10) {
			n++
		}
		return n
	}
	if n := take(slow); n != 2 {
		t.Errorf("%d slow attempts of ten each were let in, want 2: a quarter", n)
	}
	if n := take(untried); n != 3 {
		t.Errorf("%d untried ones beside them, want 3: a half together", n)
	}
	for range 20 {
		if !s.take(prompt, 10) {
			t.Fatal("a prompt attempt was kept out")
		}
	}
	s.give(slow, 10)
	if !s.take(slow, 10) || s.take(slow, 10) {
		t.Error("what was given back is not there for one more")
	}
}

// What needs more than its half gets in when nothing else is there of its kind.
func TestShareOfALargeOne(t *testing.T) {
	s := &shares{total: 100}
	if !s.take(slow, 80) || s.take(slow, 80) {
		t.Error("want one and no more")
	}
}

func TestStanding(t *testing.T) {
	for took, want := range map[time.Duration]standing{
		time.Millisecond: prompt, 900 * time.Millisecond: prompt, 901 * time.Millisecond: slow, 2 * time.Second: slow,
	} {
		if got := standingOf(took, time.Second); got != want {
			t.Errorf("%v of a second: got %v, want %v", took, got, want)
		}
	}
}

// Time that an attempt waited for others says nothing of its target, unless it came to
// its deadline all the same: a guest that looks again and again for an answer waits for a
// processor each time.
func TestStandingOfOneThatWaited(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	c := &call{ctx: ctx, host: &Host{cfg: Config{Clock: realClock{}}}}
	entered := time.Now().Add(-time.Hour)
	c.waited = time.Hour
	for ended, want := range map[error]standing{nil: prompt, context.Canceled: prompt, context.DeadlineExceeded: slow} {
		if got := c.standingSince(entered, 0, ended); got != want {
			t.Errorf("%v: got %v, want %v", ended, got, want)
		}
	}
	c.waited = 0
	if got := c.standingSince(entered, 0, nil); got != slow {
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
