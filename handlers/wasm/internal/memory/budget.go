// Package memory holds the linear memories of a host's instances: what they take of one
// budget, and the image that they begin with and are reset to.
//
// Read memory.go first, one instance's memory, then image.go, the reset. budget.go bounds all
// of them; backing_linux.go maps an image so that instances share its pages.
package memory

import "sync"

// Budget bounds the memory of all instances of a host. Instances of one plugin share the
// pages of its image that they do not write. So two things are counted: what guests are
// expected to write, out of the total, and what they could write, out of a few times as
// much.
type Budget struct {
	evict func() bool // closes something idle; called without the lock

	mu    sync.Mutex
	used  Amount
	total uint64
}

// NewBudget returns a budget of total bytes. Where there is no room, evict is called to close
// something idle; it reports whether there was something.
func NewBudget(total uint64, evict func() bool) *Budget { return &Budget{total: total, evict: evict} }

// Amount is a part of a budget.
type Amount struct {
	Written  uint64 // bytes that are expected to be written
	Writable uint64 // bytes that could be
}

// Whole returns n bytes that are not shared.
func Whole(n uint64) Amount { return Amount{n, n} }

// Share returns what the amount counts in a quota of the total.
func (n Amount) Share() uint64 { return max(n.Written, n.Writable/maxOvercommit) }

// maxOvercommit is how many times the total may be writable.
const maxOvercommit = 4

// Acquire takes n, if need be after idle instances were closed, and reports whether there was
// room for it.
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

// Release gives n back.
func (b *Budget) Release(n Amount) {
	b.mu.Lock()
	b.used.Written -= n.Written
	b.used.Writable -= n.Writable
	b.mu.Unlock()
}

// Resize changes the total. What is in use above it stays until it is given back.
func (b *Budget) Resize(total uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total = total
}

// Total returns the bytes of the budget.
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
