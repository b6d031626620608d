package rawconn

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// TryRead reads from conn without waiting. The error is [syscall.EAGAIN] if there is nothing to read,
// [io.EOF] after the last byte, and [errors.ErrUnsupported] if conn does not implement [syscall.Conn].
func TryRead(conn net.Conn, b []byte) (n int, err error) {
	receive := func(fd int) (err error) {
		for err = syscall.EINTR; err == syscall.EINTR; {
			n, _, err = syscall.Recvfrom(fd, b, syscall.MSG_DONTWAIT)
		}
		return err
	}
	switch c := conn.(type) {
	case *Conn:
		err = c.control(receive)
	case syscall.Conn:
		err = control(c, receive)
	default:
		err = errors.ErrUnsupported
	}
	switch {
	case err != nil:
		return 0, err
	case n == 0 && len(b) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// control calls f with the descriptor of c.
func control(c syscall.Conn, f func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil {
		return err
	}
	return failed
}
