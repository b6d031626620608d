package memory

import (
	"errors"

	"github.com/tetratelabs/wazero/experimental"
)

// ErrNoRoom means that the budget has no room.
var ErrNoRoom = errors.New("the memory budget has no room")

// Memory is the linear memory of one instance, and counts the stack of its guest. It belongs
// to the goroutine that runs the instance.
type Memory struct {
	budget  *Budget
	limit   uint64 // bytes that the guest may have
	space   []byte // reserved: limit bytes
	taken   Amount // of the budget
	stack   uint64 // of the budget: the bytes of the guest's stack beyond FreeStack
	mapped  bool   // the space begins with a private mapping of the image
	holder  Holder
	refused bool // the guest wanted more than its limit
	starved bool // the guest wanted more than the budget has left
}

var (
	_ experimental.MemoryAllocator = (*Memory)(nil)
	_ experimental.LinearMemory    = (*Memory)(nil)
)

// New returns a memory of at most limit bytes. It takes the initial amount of the budget,
// because wazero panics if the initial memory is refused later. The error is [ErrNoRoom] or
// that of the system.
func New(b *Budget, initial Amount, limit uint64) (*Memory, error) {
	if !b.Acquire(initial) {
		return nil, ErrNoRoom
	}
	space, err := reserve(limit)
	if err != nil {
		b.Release(initial)
		return nil, err
	}
	return &Memory{budget: b, limit: limit, space: space, taken: initial}, nil
}

// Holder observes how much a memory takes of the budget. Holds is called when it grows.
type Holder interface{ Holds(Amount) }

// Hold sets the holder of the memory; nil means none.
func (m *Memory) Hold(h Holder) { m.holder = h }

// Allocate implements [experimental.MemoryAllocator]: one module has one memory.
func (m *Memory) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// Reallocate implements [experimental.LinearMemory].
func (m *Memory) Reallocate(size uint64) []byte {
	if size > m.limit {
		m.refused = true
		return nil
	}
	if size > m.taken.Writable {
		more := Whole(size - m.taken.Writable)
		if !m.budget.Acquire(more) {
			m.starved = true
			return nil
		}
		m.taken.Written += more.Written
		m.taken.Writable = size
		m.grew()
	}
	return m.space[:size:size]
}

func (m *Memory) grew() {
	if m.holder != nil {
		m.holder.Holds(m.Taken())
	}
}

// Free implements [experimental.LinearMemory]. It does nothing, see [Memory.Release].
func (m *Memory) Free() {}

// Release frees the memory.
func (m *Memory) Release() {
	m.budget.Release(m.Taken())
	unreserve(m.space)
	m.space, m.taken, m.stack = nil, Amount{}, 0
}

// Taken returns what the memory takes of the budget, the stack included.
func (m *Memory) Taken() Amount {
	return Amount{m.taken.Written + m.stack, m.taken.Writable + m.stack}
}

// Limit returns how many bytes the guest may have.
func (m *Memory) Limit() uint64 { return m.limit }

// Begin begins a call: it resets Refused and Starved.
func (m *Memory) Begin() { m.refused, m.starved = false, false }

// Refused reports whether the guest wanted more than its limit in this call.
func (m *Memory) Refused() bool { return m.refused }

// Starved reports whether the guest wanted more than the budget had left in this call.
func (m *Memory) Starved() bool { return m.starved }

// Starve makes Starved return true: the guest was ended because of its stack.
func (m *Memory) Starve() { m.starved = true }

// GrowStack takes a stack of n bytes of the budget, and reports whether there was room.
func (m *Memory) GrowStack(n uint64) bool {
	n -= min(n, FreeStack)
	if n <= m.stack {
		return true
	}
	if !m.budget.Acquire(Whole(n - m.stack)) {
		m.starved = true
		return false
	}
	m.stack = n
	m.grew()
	return true
}

// DropStack gives the stack back to the budget.
func (m *Memory) DropStack() {
	if m.stack > 0 {
		m.budget.Release(Whole(m.stack))
		m.stack = 0
	}
}

// recount changes what is expected to be written to n bytes, and reports whether there was
// room.
func (m *Memory) recount(n uint64) bool {
	n = min(n, m.taken.Writable)
	switch old := m.taken.Written; {
	case n > old && !m.budget.Acquire(Amount{Written: n - old}):
		return false
	case n < old:
		m.budget.Release(Amount{Written: old - n})
	}
	m.taken.Written = n
	return true
}
