package main

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// fabric is a network inside the process. Another agent may enter a network namespace here, or use a
// tunnel to a virtual machine.
type fabric struct {
	mu        sync.Mutex
	listeners map[string]*listener
}

func newFabric() *fabric { return &fabric{listeners: make(map[string]*listener)} }

// DialContext has the signature of the fields of builtin.Config and wasm.Config.
func (f *fabric) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	f.mu.Lock()
	l := f.listeners[address]
	f.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("dial %s %s: nothing listens in the fabric", network, address)
	}
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, fmt.Errorf("dial %s %s: the listener has closed", network, address)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Listen announces address in the fabric.
func (f *fabric) Listen(address string) net.Listener {
	l := &listener{fabric: f, address: address, conns: make(chan net.Conn), done: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listeners[address] = l
	return l
}

type listener struct {
	fabric  *fabric
	address string
	conns   chan net.Conn
	once    sync.Once
	done    chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		l.fabric.mu.Lock()
		if l.fabric.listeners[l.address] == l {
			delete(l.fabric.listeners, l.address)
		}
		l.fabric.mu.Unlock()
		close(l.done)
	})
	return nil
}

func (l *listener) Addr() net.Addr { return address(l.address) }

type address string

func (address) Network() string  { return "fabric" }
func (a address) String() string { return string(a) }
