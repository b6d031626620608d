package wasm

import (
	"sync"

	"github.com/tetratelabs/wazero/experimental"
)

// budget is the memory of all instances of a host.
type budget struct {
	evict func() bool // closes something idle; called without the lock

	mu    sync.Mutex
	used  uint64
	total uint64 // read-only after New
}

// take counts n bytes in, at the cost of idle instances if need be, and reports
// whether there is room for them.
func (b *budget) take(n uint64) bool {
	for {
		if b.tryTake(n) {
			return true
		}
		if !b.evict() {
			return false
		}
	}
}

func (b *budget) tryTake(n uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.total-b.used {
		return false
	}
	b.used += n
	return true
}

func (b *budget) put(n uint64) {
	b.mu.Lock()
	b.used -= n
	b.mu.Unlock()
}

func (b *budget) inUse() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// memory is the linear memory of one instance. It belongs to the goroutine that runs
// the instance.
type memory struct {
	budget  *budget
	cap     uint64 // bytes that the guest may have
	space   []byte // reserved: cap bytes
	taken   uint64 // bytes counted in the budget
	refused bool   // the guest wanted more than it may have
	starved bool   // it wanted more than all plugins have left of what they may have together
}

var (
	_ experimental.MemoryAllocator = (*memory)(nil)
	_ experimental.LinearMemory    = (*memory)(nil)
)

// newMemory returns a memory with its first bytes counted in, or nil where the
// budget has no room for them: an allocator that refuses the initial memory makes
// wazero panic.
func newMemory(b *budget, initial, limit uint64) (*memory, error) {
	if !b.take(initial) {
		return nil, errNoInstance
	}
	space, err := reserve(limit)
	if err != nil {
		b.put(initial)
		return nil, err
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
	if size > m.taken {
		if !m.budget.take(size - m.taken) {
			m.starved = true
			return nil
		}
		m.taken = size
	}
	return m.space[:size:size]
}

// Free implements [experimental.LinearMemory]. The memory goes when the instance
// does, in release.
func (m *memory) Free() {}

func (m *memory) release() {
	m.budget.put(m.taken)
	unreserve(m.space)
	m.space, m.taken = nil, 0
}
