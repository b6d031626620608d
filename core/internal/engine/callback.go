package engine

import (
	"cmp"
	"log/slog"
	"runtime/debug"
)

// callback is a function that a worker calls and that others have written. Whatever one does, the worker,
// the other workers and the other callbacks go on:
//
//   - A panic is logged, the first one of each probe and callback. That of a handler is the error of its
//     attempt; one in a [worker.Source] skips the tick.
//   - A [runtime.Goexit] is treated as a panic. It then ends the goroutine: what is left of the tick is
//     done in deferred functions, and another goroutine takes the runner's place.
//   - One that does not return keeps its own probe alone from ticking; see overdue.go for handlers.
type callback uint8

const (
	ofHandler callback = 1 << iota
	ofDescriber
	ofObserver
	ofEvent
	ofSource
	ofOwner
)

var callbackNames = map[callback]string{
	ofHandler: "Handler", ofDescriber: "Describer", ofObserver: "Observer", ofEvent: "Event", ofSource: "Source", ofOwner: "Releaser",
}

// call calls f, which calls c. It reports false if f has panicked.
func (w *Worker) call(c callback, f func()) (ok bool) {
	defer func() {
		if !ok {
			w.blame(c, recover(), nil)
		}
	}()
	f()
	return true
}

// blame logs a panic of c with its stack; nil means the stack of the caller. Without a panic, c has called
// [runtime.Goexit].
func (w *Worker) blame(c callback, panicked any, stack []byte) {
	if !w.accuse(c) {
		return
	}
	defer func() { _ = recover() }() // the logger is one of others too
	if panicked == nil {
		panicked = "runtime.Goexit"
	}
	if stack == nil {
		stack = debug.Stack()
	}
	info := w.Info()
	cmp.Or(w.shared.Logger, slog.Default()).Error("callback of a probe panicked; later panics are not logged",
		"callback", callbackNames[c], "panic", panicked, "pod", info.Pod, "container", info.Container, "kind", info.Kind, "stack", string(stack))
}

// accuse reports whether it is called for c for the first time.
func (w *Worker) accuse(c callback) (first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first = w.blamed&c == 0
	w.blamed |= c
	return first
}
