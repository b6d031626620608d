package peer

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Buffer holds the bytes that have arrived at the plugin's end of a connection but are unread.
type Buffer struct {
	Datagrams bool // each Read returns one datagram, and drops the rest of it
	Deadlines bool // reads end at their deadline; otherwise the reader waits on the clock until Ready

	mu       sync.Mutex
	in       [][]byte
	err      error // returned by Read once in is empty
	closed   bool
	deadline time.Time
	changed  chan struct{} // closed at the next change, if anyone waits for it
}

// Ready reports whether a Read returns at once: see handlers/wasm.
func (b *Buffer) Ready() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.readyLocked()
}

func (b *Buffer) readyLocked() bool { return len(b.in) > 0 || b.err != nil || b.closed }

// Read implements [io.Reader].
func (b *Buffer) Read(p []byte) (int, error) {
	for {
		b.mu.Lock()
		expired := b.Deadlines && !b.deadline.IsZero() && !time.Now().Before(b.deadline)
		if expired || b.readyLocked() {
			defer b.mu.Unlock()
			if expired {
				return 0, os.ErrDeadlineExceeded
			}
			return b.readLocked(p)
		}
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed, deadline := b.changed, b.deadline
		b.mu.Unlock()
		waitUntil(changed, deadline)
	}
}

// waitUntil returns when changed is closed or at the deadline, if there is one.
func waitUntil(changed <-chan struct{}, deadline time.Time) {
	if deadline.IsZero() {
		<-changed
		return
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
}

func (b *Buffer) readLocked(p []byte) (int, error) {
	switch {
	case b.closed:
		return 0, net.ErrClosed
	case len(b.in) > 0:
		n := copy(p, b.in[0])
		if b.in[0] = b.in[0][n:]; len(b.in[0]) == 0 || b.Datagrams {
			b.in = b.in[1:]
		}
		return n, nil
	default:
		return 0, b.err
	}
}

// Arrive appends data, and sets the error after it if end is not nil.
func (b *Buffer) Arrive(data []byte, end error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(data) > 0 {
		b.in = append(b.in, data)
	}
	if b.err == nil {
		b.err = end
	}
	b.wakeLocked()
}

// WriteErr returns the error of a write, or nil if writing is possible.
func (b *Buffer) WriteErr() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return net.ErrClosed
	case b.err != io.EOF:
		return b.err
	}
	return nil
}

func (b *Buffer) wakeLocked() {
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// Close implements [io.Closer].
func (b *Buffer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.wakeLocked()
	return nil
}

// SetDeadline implements [net.Conn]. Writes do not wait.
func (b *Buffer) SetDeadline(t time.Time) error { return b.SetReadDeadline(t) }

// SetReadDeadline implements [net.Conn].
func (b *Buffer) SetReadDeadline(t time.Time) error {
	if !b.Deadlines {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deadline = t
	b.wakeLocked()
	return nil
}

// SetWriteDeadline implements [net.Conn].
func (b *Buffer) SetWriteDeadline(time.Time) error { return nil }
