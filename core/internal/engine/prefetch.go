package engine

import (
	"unsafe"

	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/worker"
)

// With many probes, cache misses dominate a tick: no tick has touched the worker, its task, the state, the
// handler and the counters of observers for a period. So the shard prefetches the memory of the next ticks
// while it runs the current one. On processors other than amd64 and arm64, and with the build tag purego,
// these functions do nothing.

// prefetchLocked prefetches the memory of the next due workers: the children of the first worker in the
// heap, and the memory that the first one points to. It reads only fields that other goroutines do not
// write, or write atomically.
func (s *shard) prefetchLocked() {
	if !prefetches || len(s.heap) == 0 {
		return
	}
	for i := 1; i < min(len(s.heap), 5); i++ {
		prefetch(unsafe.Pointer(s.heap[i].worker), unsafe.Sizeof(Worker{}))
	}
	w := s.heap[0].worker
	prefetch(unsafe.Pointer(w.task.Load()), unsafe.Sizeof(worker.Task{}))
	for _, o := range [...]worker.ProbeObserver{w.observer.first, w.observer.second} {
		prefetch(pointerOf(&o), observerSize)
	}
}

// prefetchLocked prefetches the memory that the tick of w, which begins now, uses later.
func (w *Worker) prefetchLocked() {
	if !prefetches {
		return
	}
	prefetch(unsafe.Pointer(seam.Reveal(w.task.Load()).Current()), unsafe.Sizeof(worker.State{}))
	prefetch(pointerOf(&w.setup.handler), handlerSize)
}

// The sizes in bytes that most ticks use of a probe's observer and handler, based on those in this module.
const (
	observerSize = 128
	handlerSize  = 64
)

// pointerOf returns the data pointer of an interface, nil for a nil interface. It must only be prefetched.
func pointerOf[I any](i *I) unsafe.Pointer {
	return (*[2]unsafe.Pointer)(unsafe.Pointer(i))[1] // an interface is its type and then its data
}
