package loopback

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// fill makes a listener never answer: its queue has room for one connection, which fill makes,
// and Linux does not answer the next one.
func fill(ln net.Listener) ([]io.Closer, error) {
	held := []io.Closer{ln}
	raw, err := ln.(*net.TCPListener).SyscallConn()
	if err != nil {
		return held, err
	}
	var listenErr error
	err = raw.Control(func(fd uintptr) { listenErr = syscall.Listen(int(fd), 0) })
	if err = errors.Join(err, listenErr); err != nil {
		return held, err
	}
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		return held, err
	}
	return append(held, conn), nil
}
