package httpprobe

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

// closeTimeout is the time that net/http has after an attempt for a last frame, and to close the
// connection. A write to a peer that reads nothing would take as long as the peer likes, and so would
// [tls.Conn.Close] beside one.
const closeTimeout = 250 * time.Millisecond

// lifetime closes the connection of an attempt that net/http has.
type lifetime struct {
	forget func() bool
	timer  atomic.Pointer[time.Timer] // nil until the attempt has ended
}

// begin has conn closed closeTimeout after the end of attempt, which ends when the attempt does.
func (l *lifetime) begin(attempt context.Context, conn net.Conn) {
	l.forget = context.AfterFunc(attempt, func() {
		l.timer.Store(time.AfterFunc(closeTimeout, func() { _ = conn.Close() }))
	})
}

// end ends that, after the connection was closed.
func (l *lifetime) end() {
	if l.forget() {
		return
	}
	if timer := l.timer.Load(); timer != nil { // otherwise it closes the connection again
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
