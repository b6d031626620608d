// Package rawconn has TCP connections on raw descriptors, which cost less than those of package net
// if they are used briefly: a few bytes each way, with a process that answers soon.
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

// Conn is a TCP connection whose descriptor is registered with Go's poller when it has to wait for
// the first time. A connection to a process of the same host is often made, and closed, without
// that. It is safe for concurrent use.
// See RATIONALE.md, "Why is a connection registered with Go's poller so late?"
type Conn struct {
	remote netip.AddrPort
	file   atomic.Pointer[os.File] // nil until the first wait

	mu      sync.Mutex
	fd      int // -1 once it belongs to file or is closed
	tries   int // calls of try with ctx
	ctx     context.Context
	unwatch func() bool // of ctx; nil until the first wait
}

var _ net.Conn = (*Conn)(nil)

// Dial makes a connection to at, in the network namespace of ctx. Its waits, like that for the
// connection, end with ctx. Errors are those of a [net.Dialer]. known is false if at needs one: an address of a zone, or an unspecified one,
// for which the kernel takes a loopback address, and package net tries both families.
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
	// What net.Dialer does: a connection to a port nobody listens at can meet itself, if the
	// kernel chooses the same port for its other end.
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
	// The first call begins, and each further one tells how far it is. Between processes of one
	// host the second usually finds the connection made.
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
	if err != nil { // the end of ctx
		return asNet(cmp.Or(c.ctx.Err(), context.DeadlineExceeded))
	}
	return failed
}

// registered returns the file of c, with which it can wait. The first call registers the
// descriptor, and makes the end of ctx the end of every wait.
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

// watchLocked makes the end of ctx the end of every wait.
func (c *Conn) watchLocked(file *os.File) {
	c.unwatch = context.AfterFunc(c.ctx, func() { _ = file.SetDeadline(longAgo) })
}

// Until makes what waits on c return when ctx ends, with an error that matches
// [os.ErrDeadlineExceeded]. stop ends that; it returns false if ctx has ended.
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

// Release makes c independent of its context. It returns false if that has ended, and so may end
// what waits on c.
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
		// What the others have to do may take until the answer is there, which spares a wait.
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

// TryRead reads what c has received, without waiting. The error is [syscall.EAGAIN] if there is
// nothing, and perhaps if c has waited before.
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

// TryWrite writes as much of b as the system takes without waiting, whatever deadline and context c
// has. The error is [syscall.EAGAIN] if that is nothing.
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

// maxTries is how many calls a context has before c is registered: a peer that always has bytes
// ready would make it overlook the end of the context.
const maxTries = 64

// try calls read or write without waiting. It returns EAGAIN if c has to wait, is registered or
// is closed, or had all its tries.
func (c *Conn) try(call func(fd int, b []byte) (int, error), b []byte) (int, error) {
	if c.file.Load() != nil {
		return 0, syscall.EAGAIN
	}
	c.mu.Lock() // the descriptor stays open meanwhile
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

// SetLinger is that of a [net.TCPConn], for 0 and more seconds.
func (c *Conn) SetLinger(sec int) error {
	return c.control(func(fd int) error {
		return os.NewSyscallError("setsockopt", syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1, Linger: int32(sec)}))
	})
}

// SetNoDelay is that of a [net.TCPConn]. Off is what a connection begins with: it is enough for
// one that writes once.
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

// local returns the address of this end.
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

// opError returns err as the error of an operation of a [net.TCPConn].
func (c *Conn) opError(op string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	switch errno, _ := err.(syscall.Errno); {
	case errors.Is(err, os.ErrClosed):
		err = net.ErrClosed
	case errno == syscall.EAGAIN: // the poller has not taken the descriptor
		err = os.NewSyscallError("epoll_ctl", syscall.ENOSPC)
	case errno != 0:
		err = os.NewSyscallError(op, errno)
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

func dialError(remote netip.AddrPort, err error) error {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(remote), Err: err}
}

// asNet returns the error of a context as package net does for a dial.
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
	cause error // of the context
}

func (e dialEnd) Error() string   { return e.text }
func (e dialEnd) Unwrap() error   { return e.cause }
func (e dialEnd) Timeout() bool   { return e.cause == context.DeadlineExceeded }
func (e dialEnd) Temporary() bool { return e.Timeout() }

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)
