package grpcprobe

import (
	"errors"
	"net"
	"runtime"
	"syscall"

	"google.golang.org/grpc/credentials"

	"github.com/daeace23/prober/handlers/builtin/internal/http2"
	"github.com/daeace23/prober/handlers/builtin/internal/network"
)

// handshake is the result of a TLS handshake. Without TLS, conn is the connection itself.
type handshake struct {
	conn net.Conn
	info credentials.AuthInfo
	err  error
}

// resumedConn is the connection of an attempt that grpc-go continues.
type resumedConn struct {
	net.Conn
	handshake handshake
	replay    *http2.Replay // nil if the handshake failed
	err       error         // if not nil, Read returns it after the received bytes
}

// resume returns the connection with which grpc-go continues, after x has failed with err.
func (x *exchange) resume(conn net.Conn, h handshake, err error) *resumedConn {
	b := &resumedConn{Conn: conn, handshake: h}
	if h.err != nil {
		return b
	}
	b.Conn, b.replay = h.conn, x.Replay(h.conn, appendPreface(nil), x.early)
	if err != http2.ErrOther {
		b.err = b.readError(err)
	}
	return b
}

// readError returns a socket error in the form that grpc-go expects. On Linux, grpc-go reads from sockets
// without package net.
func (b *resumedConn) readError(err error) error {
	switch b.Conn.(type) {
	case *network.Conn, *net.TCPConn, *net.UnixConn:
		if errno, ok := errors.AsType[syscall.Errno](err); ok && runtime.GOOS == "linux" {
			return errno
		}
	}
	return err
}

// Write implements [net.Conn]. If grpc-go begins with other bytes, Write fails, and grpc-go dials again.
func (b *resumedConn) Write(p []byte) (int, error) { return b.replay.Write(p) }

// Read implements [net.Conn].
func (b *resumedConn) Read(p []byte) (int, error) {
	if n, ok, err := b.replay.Read(p); ok {
		return n, err
	}
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.Conn.Read(p)
	return n, b.readError(err)
}

// Close implements [net.Conn].
func (b *resumedConn) Close() error {
	if b.replay != nil {
		b.replay.Close()
	}
	return b.Conn.Close()
}
