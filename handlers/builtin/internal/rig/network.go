package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
)

// Network is a simulated network inside one process. Connections are pipes ([net.Pipe]), and addresses are
// compared as strings. A connection to an address without a listener is refused. The zero value is ready to
// use. A Network is safe for concurrent use.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	holes     map[string]bool
	dials     []string
}

// Listen listens at address, for example "10.0.0.1:80" or "web:http".
func (n *Network) Listen(network, address string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.listeners[address]; ok {
		return nil, opError("listen", network, address, syscall.EADDRINUSE)
	}
	l := &listener{
		network: n,
		addr:    pipeAddr{network, address},
		conns:   make(chan net.Conn),
		closed:  make(chan struct{}),
	}
	if n.listeners == nil {
		n.listeners = make(map[string]*listener)
	}
	n.listeners[address] = l
	return l, nil
}

// BlackHole makes dials to address hang until their ctx ends.
func (n *Network) BlackHole(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.holes == nil {
		n.holes = make(map[string]bool)
	}
	n.holes[address] = true
}

// Dials returns the address of every dial so far.
func (n *Network) Dials() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.dials...)
}

// DialContext connects to the listener at address. It blocks until the connection is accepted or ctx ends.
func (n *Network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dials = append(n.dials, address)
	l, hole := n.listeners[address], n.holes[address]
	n.mu.Unlock()
	if hole {
		<-ctx.Done()
		return nil, opError("dial", network, address, dialError(ctx))
	}
	if l == nil {
		return nil, refused(network, address)
	}
	here, there := net.Pipe()
	addr := pipeAddr{network, address}
	select {
	case l.conns <- &conn{there, addr}:
		return &conn{here, addr}, nil
	case <-l.closed:
		return nil, refused(network, address)
	case <-ctx.Done():
		return nil, opError("dial", network, address, dialError(ctx))
	}
}

func refused(network, address string) error {
	return opError("dial", network, address, os.NewSyscallError("connect", syscall.ECONNREFUSED))
}

func opError(op, network, address string, err error) error {
	return &net.OpError{Op: op, Net: network, Addr: pipeAddr{network, address}, Err: err}
}

// dialError returns the error of a [net.Dialer] after the end of ctx.
func dialError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return timeout{}
	}
	return errors.New("operation was canceled")
}

type timeout struct{}

func (timeout) Error() string { return "i/o timeout" }

func (timeout) Timeout() bool { return true }

func (timeout) Temporary() bool { return true }

func (timeout) Is(target error) bool { return target == context.DeadlineExceeded }

type listener struct {
	network *Network
	addr    pipeAddr
	conns   chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, fmt.Errorf("accept %s: %w", l.addr, net.ErrClosed)
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.network.mu.Lock()
		defer l.network.mu.Unlock()
		delete(l.network.listeners, l.addr.address)
	})
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }

// conn is one end of a pipe, with the address of the listener.
type conn struct {
	net.Conn
	addr pipeAddr
}

func (c *conn) LocalAddr() net.Addr { return c.addr }

func (c *conn) RemoteAddr() net.Addr { return c.addr }

type pipeAddr struct{ network, address string }

func (a pipeAddr) Network() string { return a.network }

func (a pipeAddr) String() string { return a.address }

// DialError returns the error of a dial whose system call failed with err.
func DialError(syscallName string, err error) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError(syscallName, err)}
}
