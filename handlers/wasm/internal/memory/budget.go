// Package memory has the linear memories of a host's instances, the budget that they share, and the
// images that they begin with and are reset to.
//
// Read memory.go first, the memory of one instance, then image.go, the reset. budget.go bounds the
// memory of all instances. backing_linux.go maps an image so that instances share its pages.
package memory

import "sync"

// Budget bounds the memory of all instances of a host. Instances of one plugin share the pages of its
// image until they write them. So the budget limits two sums: the bytes that guests are expected to
// write, to the total, and the bytes that they could write, to a multiple of the total.
type Budget struct {
	evict func() bool // closes an idle instance; called without the lock

	mu    sync.Mutex
	used  Amount
	total uint64
}

// NewBudget returns a budget of total bytes. If there is no room, evict is called to close an
// idle instance. It reports whether there was one.
func NewBudget(total uint64, evict func() bool) *Budget { return &Budget{total: total, evict: evict} }

// Amount is an amount of memory.
type Amount struct {
	Written  uint64 // bytes that are expected to be written
	Writable uint64 // bytes that could be written
}

// Whole returns the amount of n bytes that are not shared.
func Whole(n uint64) Amount { return Amount{n, n} }

// Share returns how many bytes the amount counts in a quota of the total.
func (n Amount) Share() uint64 { return max(n.Written, n.Writable/maxOvercommit) }

// maxOvercommit is the multiple of the total that may be writable.
const maxOvercommit = 4

// Acquire takes n, after closing idle instances if necessary. It reports whether there was room.
func (b *Budget) Acquire(n Amount) bool {
	for {
		if b.tryAcquire(n) {
			return true
		}
		if !b.evict() {
			return false
		}
	}
}

func (b *Budget) tryAcquire(n Amount) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used.Written+n.Written > b.total || b.used.Writable+n.Writable > maxOvercommit*b.total {
		return false
	}
	b.used.Written += n.Written
	b.used.Writable += n.Writable
	return true
}

// Release returns n to the budget.
func (b *Budget) Release(n Amount) {
	b.mu.Lock()
	b.used.Written -= n.Written
	b.used.Writable -= n.Writable
	b.mu.Unlock()
}

// Resize changes the total. It may be less than the amount in use.
func (b *Budget) Resize(total uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total = total
}

// Total returns the total of the budget in bytes.
func (b *Budget) Total() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// InUse returns how many bytes are expected to be written.
func (b *Budget) InUse() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used.Written
}
