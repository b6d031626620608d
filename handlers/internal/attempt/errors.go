package attempt

import (
	"errors"
	"fmt"

	"github.com/daeace23/prober/probe"
)

// ErrClosed is the error of an attempt after the plugin was closed.
var ErrClosed = errors.New("the plugin has been closed")

// Skipped is the error of an attempt that was not made. It says nothing about the target, and
// matches [probe.ErrNoSlot], so that the tick counts as skipped.
type Skipped struct{ Err error }

// Error returns the text of Err.
func (e *Skipped) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Skipped) Unwrap() error { return e.Err }

// Is makes the error match [probe.ErrNoSlot].
func (e *Skipped) Is(target error) bool { return target == probe.ErrNoSlot }

// ProtocolError returns the error of a plugin that violates the contract.
func ProtocolError(format string, args ...any) error {
	return &probe.Error{Reason: probe.ReasonProtocol, Err: fmt.Errorf(format, args...)}
}

// LoadError adds the plugin's name to err, the error of a failed load. An error without a reason gets
// [probe.ReasonInstantiate].
func LoadError(name string, err error) error {
	if _, ok := errors.AsType[*probe.Error](err); !ok {
		err = &probe.Error{Reason: probe.ReasonInstantiate, Err: err}
	}
	return Named(name, err)
}

// Named adds the name of a plugin to err. It returns nil if err is nil.
func Named(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("plugin %q: %w", name, err)
}
