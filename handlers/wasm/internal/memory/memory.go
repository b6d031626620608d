package memory

import (
	"errors"

	"github.com/tetratelabs/wazero/experimental"
)

// ErrNoRoom means that the budget has no room.
var ErrNoRoom = errors.New("the memory budget has no room")

// Memory is the linear memory of one instance. It also counts the stack of the guest. Only the
// goroutine that runs the instance may use it.
type Memory struct {
	budget  *Budget
	limit   uint64 // bytes that the guest may have
	space   []byte // reserved: limit bytes
	taken   Amount // taken from the budget for the memory
	stack   uint64 // taken from the budget for the guest's stack: the bytes beyond FreeStack
	mapped  bool   // space begins with a private mapping of the image
	holder  Holder
	refused bool // the guest requested more than its limit
	starved bool // the guest requested more than the budget had left
}

var (
	_ experimental.MemoryAllocator = (*Memory)(nil)
	_ experimental.LinearMemory    = (*Memory)(nil)
)

// New returns a memory of at most limit bytes. It takes the initial amount from the budget at once,
// because wazero panics if the initial memory is refused later. The error is [ErrNoRoom] or a
// system error.
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

// Holder observes the amount that a memory takes from the budget. Holds is called when it grows.
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

// Taken returns the amount taken from the budget, including the stack.
func (m *Memory) Taken() Amount {
	return Amount{m.taken.Written + m.stack, m.taken.Writable + m.stack}
}

// Limit returns the maximum size of the memory in bytes.
func (m *Memory) Limit() uint64 { return m.limit }

// Begin begins a call: it resets Refused and Starved.
func (m *Memory) Begin() { m.refused, m.starved = false, false }

// Refused reports whether the guest requested more than its limit in this call.
func (m *Memory) Refused() bool { return m.refused }

// Starved reports whether the guest requested more than the budget had left in this call.
func (m *Memory) Starved() bool { return m.starved }

// Starve makes Starved return true, after the guest was ended because of its stack.
func (m *Memory) Starve() { m.starved = true }

// GrowStack takes a stack of n bytes from the budget, and reports whether there was room.
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

// DropStack returns the stack to the budget.
func (m *Memory) DropStack() {
	if m.stack > 0 {
		m.budget.Release(Whole(m.stack))
		m.stack = 0
	}
}

// recount changes the number of bytes expected to be written to n, and reports whether the budget had
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
