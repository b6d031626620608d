package memory

import "testing"

func TestBudgetCountsWrittenAndWritable(t *testing.T) {
	b := NewBudget(100, func() bool { return false })
	n := 0
	for b.Acquire(Amount{Written: 10, Writable: 50}) {
		n++
	}
	if n != 100*maxOvercommit/50 {
		t.Errorf("%d instances of 50 writable bytes, want %d times the total", n, maxOvercommit)
	}
	if b.InUse() != uint64(10*n) {
		t.Errorf("%d bytes are in use, want what is written", b.InUse())
	}
	b.Release(Amount{Written: 10, Writable: 50})
	if b.Acquire(Whole(100)) || !b.Acquire(Whole(30)) {
		t.Error("what is not shared counts whole")
	}
}

func TestWorkingSet(t *testing.T) {
	var h workingSet
	const image = 4 << 20
	if got := h.expect(image); got != leastWorkingSet {
		t.Errorf("at first: %d", got)
	}
	h.note(2 << 20)
	if got := h.expect(image); got != 2<<20 {
		t.Errorf("after 2 MiB: %d", got)
	}
	for range 1000 {
		h.note(0)
	}
	if got := h.expect(image); got != leastWorkingSet {
		t.Errorf("after many calls that wrote nothing: %d", got)
	}
	h.note(1 << 30)
	if got := h.expect(image); got != image {
		t.Errorf("more than the image: %d", got)
	}
}

func TestBudgetEvictsUntilThereIsRoom(t *testing.T) {
	idle := 3
	var b *Budget
	b = NewBudget(100, func() bool {
		if idle == 0 {
			return false
		}
		idle--
		b.Release(Whole(30))
		return true
	})
	b.Acquire(Whole(90))
	if !b.Acquire(Whole(60)) || idle != 1 {
		t.Errorf("%d idle instances are left, want 1", idle)
	}
	if b.Acquire(Whole(101)) || idle != 0 {
		t.Error("there is room for more than the total")
	}
}
