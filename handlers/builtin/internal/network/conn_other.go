//go:build !linux

package network

import (
	"context"
	"errors"
	"net"
)

// Conn is a connection of this package. There are none on this system.
type Conn struct{ *net.TCPConn }

func connect(context.Context, Endpoint) (conn *Conn, known bool, err error) { return nil, false, nil }

func (c *Conn) until(context.Context) (stop func() bool) { panic("no such connection") }

// TryRead reads what conn has received, without waiting. It is not supported on this system.
func TryRead(net.Conn, []byte) (int, error) { return 0, errors.ErrUnsupported }
