package engine

import (
	"unsafe"

	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/worker"
)

// With many probes, most of the price of a tick is the wait for memory that no tick has touched for a
// period: the worker, its task, the state, the handler and what the observers count with. The shard
// therefore asks the processor for the memory of the next ticks while it runs the present one. On
// other processors than amd64 and arm64, and with the build tag purego, these functions do nothing.

// prefetchLocked asks for the memory of the workers that are due next: for those that may come after
// the first, which are its children in the heap, and for what the first points to. It touches only
// what other goroutines do not write, or write atomically.
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

// prefetchLocked asks for the memory that the tick of w which begins now uses later.
func (w *Worker) prefetchLocked() {
	if !prefetches {
		return
	}
	prefetch(unsafe.Pointer(seam.Of(w.task.Load()).Known()), unsafe.Sizeof(worker.State{}))
	prefetch(pointerOf(&w.setup.handler), handlerSize)
}

// What an observer and a handler of a probe use in most ticks, in bytes: about as much as those of
// this module.
const (
	observerSize = 128
	handlerSize  = 64
)

// pointerOf returns where the value in an interface is, nil for none. It is only to be prefetched.
func pointerOf[I any](i *I) unsafe.Pointer {
	return (*[2]unsafe.Pointer)(unsafe.Pointer(i))[1] // its type, and then its value
}
