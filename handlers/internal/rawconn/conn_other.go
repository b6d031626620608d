//go:build !linux

package rawconn

import (
	"context"
	"errors"
	"net"
	"net/netip"
)

// Conn is a connection of this package. There are none on this system.
type Conn struct{ *net.TCPConn }

// Dial does not know any address on this system.
func Dial(context.Context, netip.AddrPort) (conn *Conn, known bool, err error) {
	return nil, false, nil
}

// Until is not called on this system.
func (c *Conn) Until(context.Context) (stop func() bool) { panic("no such connection") }

// TryRead reads what conn has received, without waiting. It is not supported on this system.
func TryRead(net.Conn, []byte) (int, error) { return 0, errors.ErrUnsupported }

// Release is not called on this system.
func (c *Conn) Release() bool { panic("no such connection") }

// TryRead does not work on this system.
func (c *Conn) TryRead([]byte) (int, error) { return 0, errors.ErrUnsupported }

// TryWrite does not work on this system.
func (c *Conn) TryWrite([]byte) (int, error) { return 0, errors.ErrUnsupported }
