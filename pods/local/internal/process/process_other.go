//go:build !linux

package process

import (
	"errors"
	"fmt"
)

// Process is never started on this system.
type Process struct{}

// Start returns an error that matches [errors.ErrUnsupported].
func Start(Launch, *Output, <-chan struct{}) (*Process, error) {
	return nil, fmt.Errorf("local processes need Linux: %w", errors.ErrUnsupported)
}

// Exited returns nil.
func (p *Process) Exited() <-chan struct{} { return nil }

// HasExited returns true.
func (p *Process) HasExited() bool { return true }

// Terminate does nothing.
func (p *Process) Terminate() {}

// Kill does nothing.
func (p *Process) Kill() {}

// Exit returns the zero value.
func (p *Process) Exit() Exit { return Exit{} }

// SignalName returns "".
func SignalName(int32) string { return "" }
