package wasm

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tetratelabs/wazero/experimental"
)

// budget is the memory of all instances of a host. Instances of one plugin share the
// pages of its image that they do not write to. So two things are counted: what guests
// are held to write to, out of the total, and what they could write to, out of a few
// times as much, for a guest may do what it never did before.
type budget struct {
	evict func() bool // closes something idle; called without the lock

	mu    sync.Mutex
	used  bytesOf
	total uint64
}

// bytesOf is a part of the budget.
type bytesOf struct {
	written  uint64 // that are held to be written to
	writable uint64 // that could be
}

// whole is memory that is not shared.
func whole(n uint64) bytesOf { return bytesOf{n, n} }

// share is what n counts in the shares of the budget.
func (n bytesOf) share() uint64 { return max(n.written, n.writable/maxOvercommit) }

// maxOvercommit is how many times the total may be writable.
const maxOvercommit = 4

// take counts n in, at the cost of idle instances if need be, and reports whether
// there is room for it.
func (b *budget) take(n bytesOf) bool {
	for {
		if b.tryTake(n) {
			return true
		}
		if !b.evict() {
			return false
		}
	}
}

func (b *budget) tryTake(n bytesOf) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used.written+n.written > b.total || b.used.writable+n.writable > maxOvercommit*b.total {
		return false
	}
	b.used.written += n.written
	b.used.writable += n.writable
	return true
}

func (b *budget) put(n bytesOf) {
	b.mu.Lock()
	b.used.written -= n.written
	b.used.writable -= n.writable
	b.mu.Unlock()
}

// resize changes the total. What is in use above it stays until it is given back.
func (b *budget) resize(total uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total = total
}

func (b *budget) size() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

func (b *budget) inUse() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used.written
}

// memory is the linear memory of one instance. It belongs to the goroutine that runs
// the instance.
type memory struct {
	budget  *budget
	cap     uint64  // bytes that the guest may have
	space   []byte  // reserved: cap bytes
	taken   bytesOf // counted in the budget
	stack   uint64  // counted in the budget, too: what the guest's stack has beyond freeStack
	call    *call   // in whose share it counts; nil outside of an attempt
	refused bool    // the guest wanted more than it may have
	starved bool    // it wanted more than all plugins have left of what they may have together
}

var (
	_ experimental.MemoryAllocator = (*memory)(nil)
	_ experimental.LinearMemory    = (*memory)(nil)
)

// newMemory returns a memory with its first bytes counted in, or nil where the
// budget has no room for them: an allocator that refuses the initial memory makes
// wazero panic.
func newMemory(b *budget, initial bytesOf, limit uint64) (*memory, error) {
	if !b.take(initial) {
		return nil, errNoInstance
	}
	space, err := reserve(limit)
	if err != nil {
		b.put(initial)
		return nil, fmt.Errorf("%w: %w", errNoInstance, err) // the system has no room: it says nothing of the plugin
	}
	return &memory{budget: b, cap: limit, space: space, taken: initial}, nil
}

// Allocate implements [experimental.MemoryAllocator]: one module has one memory.
func (m *memory) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// Reallocate implements [experimental.LinearMemory].
func (m *memory) Reallocate(size uint64) []byte {
	if size > m.cap {
		m.refused = true
		return nil
	}
	if size > m.taken.writable {
		more := whole(size - m.taken.writable)
		if !m.budget.take(more) {
			m.starved = true
			return nil
		}
		m.taken.written += more.written
		m.taken.writable = size
		m.call.holds(m.all())
	}
	return m.space[:size:size]
}

// Free implements [experimental.LinearMemory]. The memory goes when the instance
// does, in release.
func (m *memory) Free() {}

func (m *memory) release() {
	m.budget.put(m.all())
	unreserve(m.space)
	m.space, m.taken, m.stack = nil, bytesOf{}, 0
}

// all is what is counted in the budget.
func (m *memory) all() bytesOf {
	return bytesOf{m.taken.written + m.stack, m.taken.writable + m.stack}
}

// recount counts n bytes of the guest's memory as written to, and reports whether there
// is room for them.
func (m *memory) recount(n uint64) bool {
	n = min(n, m.taken.writable)
	switch old := m.taken.written; {
	case n > old && !m.budget.take(bytesOf{written: n - old}):
		return false
	case n < old:
		m.budget.put(bytesOf{written: old - n})
	}
	m.taken.written = n
	return true
}

// habit is how much of an image its instances write to. It is safe for concurrent use.
type habit struct{ bytes atomic.Uint64 }

// leastHabit is what an instance is held to write to if it never wrote that much.
const leastHabit = 256 << 10

// note notes what an instance has written to. More counts at once, less by and by.
func (h *habit) note(n uint64) {
	was := h.bytes.Load()
	if n < was {
		n = was - (was-n)/64
	}
	h.bytes.CompareAndSwap(was, n) // of two at a time one is enough
}

// expect is what an instance with an image of so many bytes is held to write to.
func (h *habit) expect(image int) uint64 {
	return min(max(h.bytes.Load(), leastHabit), uint64(image))
}
