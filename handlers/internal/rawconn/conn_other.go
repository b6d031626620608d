//go:build !linux

package rawconn

import (
	"context"
	"errors"
	"net"
	"net/netip"
)

// Conn is a connection of this package. This system has none.
type Conn struct{ *net.TCPConn }

// Dial supports no address on this system.
func Dial(context.Context, netip.AddrPort) (conn *Conn, known bool, err error) {
	return nil, false, nil
}

// Until is not called on this system.
func (c *Conn) Until(context.Context) (stop func() bool) { panic("no such connection") }

// TryRead returns an error, because it is not supported on this system.
func TryRead(net.Conn, []byte) (int, error) { return 0, errors.ErrUnsupported }

// Release is not called on this system.
func (c *Conn) Release() bool { panic("no such connection") }

// TryRead returns an error, because it is not supported on this system.
func (c *Conn) TryRead([]byte) (int, error) { return 0, errors.ErrUnsupported }

// TryWrite returns an error, because it is not supported on this system.
func (c *Conn) TryWrite([]byte) (int, error) { return 0, errors.ErrUnsupported }
