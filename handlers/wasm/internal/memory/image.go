package memory

import (
	"slices"
	"sync/atomic"
)

// Image is the memory of a plugin's first instance after its start. Other instances begin with this
// memory, and a reset restores it. It is safe for concurrent use.
type Image struct {
	budget  *Budget
	size    int
	copy    []byte   // nil if there is a backing
	backing *backing // nil if there is a copy
	written workingSet
}

// mappedSize is the size from which mapping an image is cheaper than copying it.
const mappedSize = 512 << 10

// NewImage returns an image of data, the whole of memory m. The instance of m continues as if it was
// made from the image. NewImage returns nil if the budget has no room.
func NewImage(m *Memory, data []byte) *Image {
	if !m.budget.Acquire(Whole(uint64(len(data)))) {
		return nil
	}
	i := &Image{budget: m.budget, size: len(data)}
	if i.size >= mappedSize {
		i.backing = newBacking(data)
	}
	if m.mapped = i.backing.mapOver(m.space); !m.mapped {
		i.backing.close()
		i.backing, i.copy = nil, slices.Clone(data)
	}
	return i
}

// Close frees the image. All instances made from it must have been released.
func (i *Image) Close() {
	i.budget.Release(Whole(uint64(i.size)))
	i.backing.close()
}

// Size returns the size of the image in bytes.
func (i *Image) Size() int { return i.size }

// Initial returns the amount that a new instance takes from the budget.
func (i *Image) Initial() Amount {
	if i.backing == nil {
		return Whole(uint64(i.size))
	}
	return Amount{Written: i.written.expect(i.size), Writable: uint64(i.size)}
}

// Assume copies or maps the image into data, the whole memory of a new instance. It returns false if
// it cannot.
func (i *Image) Assume(m *Memory, data []byte) bool {
	m.mapped = i.backing.mapOver(m.space)
	return i.Restore(m, data)
}

// Restore resets data, the whole memory of an instance, to the image. If it returns false, the
// instance must not be used again.
func (i *Image) Restore(m *Memory, data []byte) bool {
	switch {
	case m.mapped:
		written, ok := i.backing.restore(data)
		if !ok {
			return false
		}
		i.written.note(written)
		return m.recount(i.written.expect(i.size) + uint64(len(data)-i.size))
	case i.copy == nil:
		return false
	default:
		n := copy(data, i.copy)
		clear(data[n:])
		return true
	}
}

// Note adds the pages that a discarded instance has written to the estimate of the working set.
func (i *Image) Note(m *Memory, data []byte) {
	if m.mapped {
		i.written.note(i.backing.written(data))
	}
}

// workingSet estimates how many bytes of an image its instances write. It is safe for concurrent use.
type workingSet struct{ bytes atomic.Uint64 }

// leastWorkingSet is the minimum of the estimate, in bytes.
const leastWorkingSet = 256 << 10

// note adds that an instance has written n bytes. The estimate rises at once and falls gradually.
func (w *workingSet) note(n uint64) {
	was := w.bytes.Load()
	if n < was {
		n = was - (was-n)/64
	}
	w.bytes.CompareAndSwap(was, n) // a concurrent note may be lost
}

// expect returns how many bytes an instance is expected to write. image is the size of its image in
// bytes.
func (w *workingSet) expect(image int) uint64 {
	return min(max(w.bytes.Load(), leastWorkingSet), uint64(image))
}
