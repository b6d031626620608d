//go:build !linux

package netns

import (
	"errors"
	"fmt"
	"runtime"
)

// Namespace is an open network namespace. This system has none.
type Namespace struct {
	path string
	own  bool
}

// Open returns an error, because this system has no network namespaces.
func Open(path string) (*Namespace, error) { return nil, unsupported(path) }

// Current is not called on this system.
func (n *Namespace) Current() error { return unsupported(n.path) }

// Same is not called on this system.
func (n *Namespace) Same(*Namespace) bool { return false }

// IsOwn is not called on this system.
func (n *Namespace) IsOwn() bool { return n.own }

// Close is not called on this system.
func (n *Namespace) Close() error { return nil }

// Socket is not called on this system.
func (n *Namespace) Socket(int, int, int) (int, error) { return -1, unsupported(n.path) }

func unsupported(path string) error {
	return failed(path, fmt.Errorf("%s has none: %w", runtime.GOOS, errors.ErrUnsupported))
}
