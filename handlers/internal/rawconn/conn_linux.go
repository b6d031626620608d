// Package rawconn has TCP connections on raw descriptors. They cost less than the connections of package
// net for short exchanges: a few bytes each way, with a peer that answers soon.
package rawconn

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/daeace23/prober/handlers/netns"
)

// Conn is a TCP connection. Its descriptor is registered with Go's poller only when the connection must
// wait for the first time. A connection to a process on the same host often never needs that. It is safe
// for concurrent use.
type Conn struct {
	remote netip.AddrPort
	file   atomic.Pointer[os.File] // nil until the first wait

	mu      sync.Mutex
	fd      int // -1 once it belongs to file or is closed
	tries   int // number of calls of try with ctx
	ctx     context.Context
	unwatch func() bool // stops watching ctx; nil until the first wait
}

var _ net.Conn = (*Conn)(nil)

// Dial makes a connection to at in the network namespace of ctx. The dial and all later waits of the
// connection end with ctx. Errors are the same as those that a [net.Dialer] returns. known is false if at
// needs a net.Dialer: an address with a zone, or an unspecified address, for which package net tries
// loopback addresses of both families.
func Dial(ctx context.Context, at netip.AddrPort) (conn *Conn, known bool, err error) {
	if !at.IsValid() || at.Addr().Zone() != "" || at.Addr().Unmap().IsUnspecified() {
		return nil, false, nil
	}
	conn, err = dial(ctx, Origin{Namespace: netns.From(ctx)}, netip.AddrPortFrom(at.Addr().Unmap(), at.Port()))
	return conn, true, err
}

// dial makes a connection to remote.
func dial(ctx context.Context, from Origin, remote netip.AddrPort) (conn *Conn, err error) {
	if err := ctx.Err(); err != nil {
		return nil, dialError(remote, asNet(err))
	}
	conn, err = dialOnce(ctx, from, remote)
	// As in net.Dialer: a connection to a local port without a listener can connect to itself, if the kernel
	// chooses the same port for the local end.
	for i := 0; i < 2 && (err == nil && conn.meetsItself() || errors.Is(err, syscall.EADDRNOTAVAIL)); i++ {
		if err == nil {
			_ = conn.Close()
		}
		conn, err = dialOnce(ctx, from, remote)
	}
	if err != nil {
		return nil, dialError(remote, err)
	}
	return conn, nil
}

// dialOnce makes one attempt to connect to remote.
func dialOnce(ctx context.Context, from Origin, remote netip.AddrPort) (*Conn, error) {
	family, to := sockaddr(remote)
	fd, err := from.socket(family, syscall.SOCK_STREAM, syscall.IPPROTO_TCP)
	if err != nil {
		return nil, err
	}
	c := &Conn{remote: remote, fd: fd, ctx: ctx}
	// The first call starts the connection, and each further call returns its state. Between processes of one
	// host, the second call usually finds the connection established.
	if err = syscall.Connect(fd, to); err == syscall.EINPROGRESS {
		if err = syscall.Connect(fd, to); err == syscall.EALREADY {
			err = c.await(to)
		}
	}
	switch err.(type) {
	case nil:
		return c, nil
	case syscall.Errno:
		err = os.NewSyscallError("connect", err)
	}
	_ = c.Close()
	return nil, err
}

// await waits until the connection is made.
func (c *Conn) await(to syscall.Sockaddr) error {
	file, err := c.registered()
	if err != nil {
		return err
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) (done bool) {
		switch failed = syscall.Connect(int(fd), to); failed {
		case syscall.EALREADY, syscall.EINPROGRESS, syscall.EINTR:
			return false
		case syscall.EISCONN:
			failed = nil
		}
		return true
	})
	if err != nil { // ctx has ended
		return asNet(cmp.Or(c.ctx.Err(), context.DeadlineExceeded))
	}
	return failed
}

// registered returns the file of c, which can wait. The first call registers the descriptor with the
// poller, and arranges that every wait ends with ctx.
func (c *Conn) registered() (*os.File, error) {
	if file := c.file.Load(); file != nil {
		return file, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if file := c.file.Load(); file != nil {
		return file, nil
	}
	if c.fd < 0 {
		return nil, net.ErrClosed
	}
	file := os.NewFile(uintptr(c.fd), "")
	c.fd = -1
	c.file.Store(file)
	c.watchLocked(file)
	return file, nil
}

// watchLocked arranges that every wait ends with ctx.
func (c *Conn) watchLocked(file *os.File) {
	c.unwatch = context.AfterFunc(c.ctx, func() { _ = file.SetDeadline(longAgo) })
}

// Until makes waiting calls of c return when ctx ends, with an error that matches
// [os.ErrDeadlineExceeded]. stop cancels this, and returns false if ctx has ended.
func (c *Conn) Until(ctx context.Context) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == ctx {
		return c.Release
	}
	c.releaseLocked()
	c.ctx, c.tries = ctx, 0
	if file := c.file.Load(); file != nil {
		c.watchLocked(file)
	}
	return c.Release
}

// Release makes c independent of its context. It returns false if the context has ended, because calls of
// c may then fail.
func (c *Conn) Release() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.releaseLocked()
}

func (c *Conn) releaseLocked() bool {
	unwatch := c.unwatch
	c.ctx, c.unwatch = context.Background(), nil
	return unwatch == nil || unwatch()
}

// Read implements [net.Conn].
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.TryRead(b)
	if err == syscall.EAGAIN {
		// Other goroutines may run until the answer has arrived, which saves a wait.
		runtime.Gosched()
		n, err = c.TryRead(b)
	}
	if err == syscall.EAGAIN {
		return c.waitRead(b)
	}
	return n, err
}

func (c *Conn) waitRead(b []byte) (int, error) {
	file, err := c.registered()
	if err != nil {
		return 0, c.opError("read", err)
	}
	n, err := file.Read(b)
	if err != nil && err != io.EOF {
		err = c.opError("read", err)
	}
	return n, err
}

// TryRead reads from c without waiting. The error is [syscall.EAGAIN] if there is nothing to read. It may
// also be EAGAIN if c has waited before.
func (c *Conn) TryRead(b []byte) (int, error) {
	n, err := c.try(syscall.Read, b)
	switch {
	case err == syscall.EAGAIN:
		return 0, err
	case err != nil:
		return 0, c.opError("read", err)
	case n == 0 && len(b) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// TryWrite writes as much of b as possible without waiting, regardless of c's deadline and context. The
// error is [syscall.EAGAIN] if it wrote nothing.
func (c *Conn) TryWrite(b []byte) (n int, err error) {
	err = c.control(func(fd int) (err error) {
		for err = syscall.EINTR; err == syscall.EINTR; {
			n, err = syscall.Write(fd, b)
		}
		return err
	})
	if err != nil && err != syscall.EAGAIN {
		err = c.opError("write", err)
	}
	return max(n, 0), err
}

// Write implements [net.Conn].
func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.try(syscall.Write, b)
	if err == nil && n == len(b) {
		return n, nil
	}
	if err != nil && err != syscall.EAGAIN {
		return 0, c.opError("write", err)
	}
	file, err := c.registered()
	if err != nil {
		return n, c.opError("write", err)
	}
	more, err := file.Write(b[n:])
	if err != nil {
		err = c.opError("write", err)
	}
	return n + more, err
}

// maxTries is the maximum number of calls of try before c is registered. Without a limit, a peer that
// always has bytes ready could prevent c from noticing the end of its context.
const maxTries = 64

// try calls read or write without waiting. It returns EAGAIN if c must wait, is registered or closed, or
// has made maxTries calls.
func (c *Conn) try(call func(fd int, b []byte) (int, error), b []byte) (int, error) {
	if c.file.Load() != nil {
		return 0, syscall.EAGAIN
	}
	c.mu.Lock() // keeps the descriptor open
	defer c.mu.Unlock()
	if c.tries++; c.fd < 0 || c.tries > maxTries {
		return 0, syscall.EAGAIN
	}
	for {
		if n, err := call(c.fd, b); err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

// Close implements [net.Conn].
func (c *Conn) Close() error {
	if err := c.close(); err != nil {
		return c.opError("close", err)
	}
	return nil
}

func (c *Conn) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releaseLocked()
	if file := c.file.Load(); file != nil {
		return file.Close()
	}
	if c.fd < 0 {
		return net.ErrClosed
	}
	fd := c.fd
	c.fd = -1
	return os.NewSyscallError("close", syscall.Close(fd))
}

// SetDeadline implements [net.Conn].
func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadline(t, (*os.File).SetDeadline) }

// SetReadDeadline implements [net.Conn].
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.setDeadline(t, (*os.File).SetReadDeadline)
}

// SetWriteDeadline implements [net.Conn].
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadline(t, (*os.File).SetWriteDeadline)
}

func (c *Conn) setDeadline(t time.Time, set func(*os.File, time.Time) error) error {
	file, err := c.registered()
	if err == nil {
		err = set(file, t)
	}
	if err != nil {
		return c.opError("set", err)
	}
	return nil
}

// SetLinger is like SetLinger of a [net.TCPConn]. sec must not be negative.
func (c *Conn) SetLinger(sec int) error {
	return c.control(func(fd int) error {
		return os.NewSyscallError("setsockopt", syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1, Linger: int32(sec)}))
	})
}

// SetNoDelay is like SetNoDelay of a [net.TCPConn], but the default is off, which suffices for
// connections that write once.
func (c *Conn) SetNoDelay(on bool) error {
	value := 0
	if on {
		value = 1
	}
	return c.control(func(fd int) error {
		return os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, value))
	})
}

// control calls f with the descriptor.
func (c *Conn) control(f func(fd int) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fd >= 0 {
		return f(c.fd)
	}
	file := c.file.Load()
	if file == nil {
		return net.ErrClosed
	}
	return control(file, f)
}

// RemoteAddr implements [net.Conn].
func (c *Conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }

// LocalAddr implements [net.Conn]. It returns nil if c is closed.
func (c *Conn) LocalAddr() net.Addr {
	if local := c.local(); local.IsValid() {
		return net.TCPAddrFromAddrPort(local)
	}
	return nil
}

// local returns the local address.
func (c *Conn) local() (local netip.AddrPort) {
	_ = c.control(func(fd int) error {
		name, err := syscall.Getsockname(fd)
		switch name := name.(type) {
		case *syscall.SockaddrInet4:
			local = netip.AddrPortFrom(netip.AddrFrom4(name.Addr), uint16(name.Port))
		case *syscall.SockaddrInet6:
			local = netip.AddrPortFrom(netip.AddrFrom16(name.Addr), uint16(name.Port))
		}
		return err
	})
	return local
}

func (c *Conn) meetsItself() bool { return c.local() == c.remote }

// opError returns err in the form of an error of a [net.TCPConn].
func (c *Conn) opError(op string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	switch errno, _ := err.(syscall.Errno); {
	case errors.Is(err, os.ErrClosed):
		err = net.ErrClosed
	case errno == syscall.EAGAIN: // the poller did not accept the descriptor
		err = os.NewSyscallError("epoll_ctl", syscall.ENOSPC)
	case errno != 0:
		err = os.NewSyscallError(op, errno)
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

func dialError(remote netip.AddrPort, err error) error {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(remote), Err: err}
}

// asNet returns the error of a context in the form that package net returns from a dial.
func asNet(err error) error {
	switch err {
	case context.DeadlineExceeded:
		return dialEnd{"i/o timeout", err}
	case context.Canceled:
		return dialEnd{"operation was canceled", err}
	default:
		return err
	}
}

// dialEnd is the error of a dial whose context ended.
type dialEnd struct {
	text  string
	cause error // the context's error
}

func (e dialEnd) Error() string   { return e.text }
func (e dialEnd) Unwrap() error   { return e.cause }
func (e dialEnd) Timeout() bool   { return e.cause == context.DeadlineExceeded }
func (e dialEnd) Temporary() bool { return e.Timeout() }

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)
