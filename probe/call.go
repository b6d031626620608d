package probe

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// PanicError is the error of an attempt whose handler panicked. Its reason is [ReasonInternal].
type PanicError struct {
	Value any    // value of the panic
	Stack []byte // stack as returned by [debug.Stack]
}

// Error returns a text with the value of the panic.
func (e *PanicError) Error() string { return fmt.Sprintf("the handler panicked: %v", e.Value) }

// ErrGoexit is the error of an attempt whose handler ended its goroutine with [runtime.Goexit].
var ErrGoexit = errors.New("the handler called runtime.Goexit")

// Call makes an attempt with h. It returns a [*PanicError] if h panics, or if a method of the returned
// error panics, such as Error of a nil pointer.
func Call(ctx context.Context, h Handler, req Request) (out Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = Outcome{}, &PanicError{p, debug.Stack()}
		}
	}()
	out, err = h.Probe(ctx, req)
	checkError(err)
	return out, err
}

// checkError calls the methods of err, so that a panic in them is an error of the attempt. Later they are
// called where a panic is not expected, even with locks held.
func checkError(err error) {
	if err != nil {
		_, _, _ = err.Error(), ReasonOf(err), errors.Is(err, ErrNoSlot)
	}
}
