package memory

import "testing"

func TestNewWithoutAddressSpaceReleasesBudget(t *testing.T) {
	b := NewBudget(1<<30, func() bool { return false })
	if m, err := New(b, Whole(64<<10), 1<<62); m != nil || err == nil || err == ErrNoRoom || b.InUse() != 0 {
		t.Errorf("got %v, %v, and %d bytes in use", m, err, b.InUse())
	}
}
