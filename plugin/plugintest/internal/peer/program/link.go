package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// How long a command may take until it listens, and until it ends.
const (
	maxStart = 10 * time.Second
	redial   = 10 * time.Millisecond

	ending = 200 * time.Millisecond // from the end of its output to its own
)

// Link is a connection with a process. It is safe for concurrent use.
type Link struct {
	process *Process
	to      io.WriteCloser
	from    io.ReadCloser

	mu     sync.Mutex
	queue  chan []byte // to the process
	closed bool
}

// Receiver gets the data of a process, and then its end.
type Receiver func(data []byte, end error)

// Pipe returns a connection over the standard input and output of p, which has only one.
func (p *Process) Pipe(receive Receiver) *Link { return p.link(p.stdin, p.stdout, receive) }

// Dial connects to the port of p, once p listens there: a server of TCP accepts connections, and one of UDP
// prints a line. The deadline of ctx may be one of another clock.
func (p *Process) Dial(ctx context.Context, network string, receive Receiver) (*Link, error) {
	outer := ctx
	ctx, cancel := context.WithTimeout(context.WithoutCancel(outer), maxStart)
	defer cancel()
	defer context.AfterFunc(outer, cancel)()
	defer context.AfterFunc(p.group.ctx, cancel)()
	address := net.JoinHostPort("127.0.0.1", p.port)
	if network == "udp" {
		select {
		case <-p.ready:
		case <-p.Ended:
			return nil, fmt.Errorf("%v ended before it printed a line", p.command)
		case <-ctx.Done():
			return nil, fmt.Errorf("%v printed no line that says that it listens at %s", p.command, address)
		}
	}
	for {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			return p.link(conn, conn, receive), nil
		}
		select {
		case <-p.Ended:
			return nil, fmt.Errorf("%v ended before it listened at %s", p.command, address)
		case <-ctx.Done():
			return nil, fmt.Errorf("%v does not listen at %s: %w", p.command, address, err)
		case <-time.After(redial):
		}
	}
}

// freePort returns a port of loopback that is free at present.
func freePort(network string) (string, error) {
	var at net.Addr
	if network == "udp" {
		conn, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		at = conn.LocalAddr()
		_ = conn.Close()
	} else {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		at = l.Addr()
		_ = l.Close()
	}
	_, port, err := net.SplitHostPort(at.String())
	return port, err
}

// queued is the number of messages that a process may leave unread.
const queued = 256

func (p *Process) link(to io.WriteCloser, from io.ReadCloser, receive Receiver) *Link {
	l := &Link{process: p, to: to, from: from, queue: make(chan []byte, queued)}
	over := make(chan struct{})
	p.group.tasks.Go(func() {
		stop := context.AfterFunc(p.group.ctx, func() {
			_ = to.Close()
			_ = from.Close()
		})
		<-over
		l.Close()
		stop()
		_ = from.Close()
	})
	p.group.tasks.Go(l.write)
	p.group.tasks.Go(func() {
		defer close(over)
		l.read(receive)
	})
	return l
}

// Write sends data to the process. It does not wait for it.
func (l *Link) Write(data []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	select {
	case l.queue <- data:
		return nil
	default:
		return fmt.Errorf("%v has not read %d messages", l.process.command, queued)
	}
}

// Close ends the input of the process, which may send on.
func (l *Link) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.queue)
	}
}

// write sends the queue, and then the end.
func (l *Link) write() {
	for data := range l.queue {
		if _, err := l.to.Write(data); err != nil {
			break
		}
	}
	for range l.queue { // after an error
	}
	if half, ok := l.to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	if _, ok := l.to.(net.Conn); !ok {
		_ = l.to.Close()
	}
}

// end returns the end of the connection after the error of a read. A process that ends gets the time to report
// its status before the plugin, and with it the attempt, ends.
func (l *Link) end(err error) error {
	ctx := l.process.group.ctx
	if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
		return net.ErrClosed
	}
	if l.process.stdout != nil {
		select {
		case <-l.process.Ended:
		case <-ctx.Done():
		case <-time.After(ending):
		}
	}
	return io.EOF
}

// read passes on what the process sends.
func (l *Link) read(receive Receiver) {
	buf := make([]byte, 64<<10)
	for size := 0; ; {
		n, err := l.from.Read(buf)
		if size += n; size > maxOutput {
			receive(nil, fmt.Errorf("%v sends more than %d bytes", l.process.command, maxOutput))
			return
		}
		if n > 0 {
			receive(append([]byte(nil), buf[:n]...), nil)
		}
		if err != nil {
			receive(nil, l.end(err))
			return
		}
	}
}
