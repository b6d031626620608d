package httpprobe

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

// closeTimeout is the time after an attempt in which net/http can send a last frame and close the connection.
// Without a limit, a peer that does not read could block the write, and with it [tls.Conn.Close].
const closeTimeout = 250 * time.Millisecond

// lifetime closes a connection that net/http still has after an attempt.
type lifetime struct {
	forget func() bool
	timer  atomic.Pointer[time.Timer] // nil until the attempt ends
}

// begin arranges that conn is closed closeTimeout after the end of the context attempt.
func (l *lifetime) begin(attempt context.Context, conn net.Conn) {
	l.forget = context.AfterFunc(attempt, func() {
		l.timer.Store(time.AfterFunc(closeTimeout, func() { _ = conn.Close() }))
	})
}

// end cancels begin, after the connection was closed.
func (l *lifetime) end() {
	if l.forget() {
		return
	}
	if timer := l.timer.Load(); timer != nil { // if nil, the connection is closed a second time
		timer.Stop()
	}
}

// bounded is a connection with a lifetime.
type bounded struct {
	net.Conn
	lifetime lifetime
}

// Close implements [net.Conn].
func (b *bounded) Close() error {
	defer b.lifetime.end()
	return b.Conn.Close()
}
