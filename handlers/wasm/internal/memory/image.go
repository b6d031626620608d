package memory

import (
	"slices"
	"sync/atomic"
)

// Image is the memory of a plugin's first instance after its start. Every further instance
// begins with it, and every reset goes back to it. It is safe for concurrent use.
type Image struct {
	budget  *Budget
	size    int
	copy    []byte   // nil where backing holds it
	backing *backing // nil where copy holds it
	written workingSet
}

// mappedSize is the size from which mapping an image is cheaper than copying it: a page fault
// costs about as much as copying some pages.
const mappedSize = 512 << 10

// NewImage takes an image of data, which is the whole memory of the instance of m. The
// instance goes on as one that was made of the image. It returns nil if the budget has no
// room for it.
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

// Close gives back what the image takes, after all of its instances have.
func (i *Image) Close() {
	i.budget.Release(Whole(uint64(i.size)))
	i.backing.close()
}

// Size returns the bytes of the image.
func (i *Image) Size() int { return i.size }

// Initial returns what a new instance takes of the budget.
func (i *Image) Initial() Amount {
	if i.backing == nil {
		return Whole(uint64(i.size))
	}
	return Amount{Written: i.written.expect(i.size), Writable: uint64(i.size)}
}

// Assume puts the memory of a new instance, which is data, into the state of the image.
func (i *Image) Assume(m *Memory, data []byte) bool {
	m.mapped = i.backing.mapOver(m.space)
	return i.Restore(m, data)
}

// Restore puts data, the memory of an instance, back to the image; what has grown is zeroed.
// It reports false if it could not: the instance must go then.
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

// Rest gives the pages of a restored instance back to the system until it is used again.
func (i *Image) Rest(m *Memory, data []byte) {
	if m.mapped {
		i.backing.forget(data)
	}
}

// Note notes what an instance has written that is not used again.
func (i *Image) Note(m *Memory, data []byte) {
	if m.mapped {
		i.written.note(i.backing.written(data))
	}
}

// workingSet estimates how much of an image its instances write. It is safe for concurrent
// use.
type workingSet struct{ bytes atomic.Uint64 }

// leastWorkingSet is the least that an instance is expected to write.
const leastWorkingSet = 256 << 10

// note notes what an instance has written. More counts at once, less counts gradually.
func (w *workingSet) note(n uint64) {
	was := w.bytes.Load()
	if n < was {
		n = was - (was-n)/64
	}
	w.bytes.CompareAndSwap(was, n) // of two at a time one is enough
}

// expect returns what an instance with an image of so many bytes is expected to write.
func (w *workingSet) expect(image int) uint64 {
	return min(max(w.bytes.Load(), leastWorkingSet), uint64(image))
}
