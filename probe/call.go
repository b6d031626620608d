package probe

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// PanicError is the error of an attempt whose handler panicked. Its reason is [ReasonInternal].
type PanicError struct {
	Value any    // of the panic
	Stack []byte // as [debug.Stack] returns it
}

// Error returns the value of the panic as text.
func (e *PanicError) Error() string { return fmt.Sprintf("the handler panicked: %v", e.Value) }

// ErrGoexit is the error of an attempt whose handler has ended its goroutine with [runtime.Goexit].
var ErrGoexit = errors.New("the handler called runtime.Goexit")

// Call makes an attempt with h. If h panics, or a method of the error that it returns, such as Error of a nil
// pointer, the error is a [*PanicError].
func Call(ctx context.Context, h Handler, req Request) (out Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = Outcome{}, &PanicError{p, debug.Stack()}
		}
	}()
	out, err = h.Probe(ctx, req)
	try(err)
	return out, err
}

// try calls the methods of err for the first time: a panic in them is the fault of the attempt. Later they are
// called where nobody expects a fault, also with locks held.
func try(err error) {
	if err != nil {
		_, _, _ = err.Error(), ReasonOf(err), errors.Is(err, ErrNoSlot)
	}
}
