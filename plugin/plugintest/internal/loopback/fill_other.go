//go:build !linux

package loopback

import (
	"io"
	"net"
)

// fill keeps a listener. Unlike under Linux connections to it are made, and nobody serves them.
func fill(ln net.Listener) ([]io.Closer, error) { return []io.Closer{ln}, nil }
