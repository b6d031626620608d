package engine

import (
	"cmp"
	"log/slog"
	"runtime/debug"
)

// callback is a kind of function that a worker calls and that is not part of this package. Whatever it
// does, the worker, other workers and other callbacks continue:
//
//   - A panic is logged once for each probe and callback. A panic of a handler is the error of its attempt.
//     A panic of a [worker.Source] skips the tick.
//   - A [runtime.Goexit] is treated as a panic. Then it ends the goroutine: the rest of the tick runs in
//     deferred functions, and a new goroutine replaces the runner.
//   - A callback that does not return stops only the ticks of its own probe; see overdue.go for handlers.
type callback uint8

const (
	handlerCallback callback = 1 << iota
	describerCallback
	observerCallback
	eventCallback
	sourceCallback
	ownerCallback // Release of a handler, or an [Owner]
)

var callbackNames = map[callback]string{
	handlerCallback: "Handler", describerCallback: "Describer", observerCallback: "Observer", eventCallback: "Event", sourceCallback: "Source", ownerCallback: "Releaser",
}

// call calls f, which calls c. It returns false if f has panicked.
func (w *Worker) call(c callback, f func()) (ok bool) {
	defer func() {
		if !ok {
			w.logPanic(c, recover(), nil)
		}
	}()
	f()
	return true
}

// logPanic logs a panic of c with its stack. A nil stack means the caller's stack. A nil panicked means
// that c has called [runtime.Goexit].
func (w *Worker) logPanic(c callback, panicked any, stack []byte) {
	if !w.firstPanic(c) {
		return
	}
	defer func() { _ = recover() }() // the logger is not part of this package either
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

// firstPanic records a panic of c, and reports whether it is the first one.
func (w *Worker) firstPanic(c callback) (first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first = w.loggedPanics&c == 0
	w.loggedPanics |= c
	return first
}
