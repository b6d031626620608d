package plugintest

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// inbox is what has arrived at the guest's end of something, and was not read yet.
type inbox struct {
	datagrams bool // what arrives together is read together, and of it the rest is lost
	deadlines bool // reads end at their deadline; else whoever reads waits by the clock, outside of here

	mu       sync.Mutex
	in       [][]byte
	err      error // what a Read gives when in is empty
	closed   bool
	deadline time.Time
	changed  chan struct{} // closed at the next change, if anyone waits for it
}

// Ready reports whether a Read returns at once: see handlers/wasm.
func (b *inbox) Ready() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.readyLocked()
}

func (b *inbox) readyLocked() bool { return len(b.in) > 0 || b.err != nil || b.closed }

// Read implements [io.Reader].
func (b *inbox) Read(p []byte) (int, error) {
	for {
		b.mu.Lock()
		late := b.deadlines && !b.deadline.IsZero() && !time.Now().Before(b.deadline)
		if late || b.readyLocked() {
			defer b.mu.Unlock()
			if late {
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

// waitUntil returns when changed is closed or the deadline is there, if there is one.
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

func (b *inbox) readLocked(p []byte) (int, error) {
	switch {
	case b.closed:
		return 0, net.ErrClosed
	case len(b.in) > 0:
		n := copy(p, b.in[0])
		if b.in[0] = b.in[0][n:]; len(b.in[0]) == 0 || b.datagrams {
			b.in = b.in[1:]
		}
		return n, nil
	default:
		return 0, b.err
	}
}

// arrive puts data, or the end, behind what is there.
func (b *inbox) arrive(data []byte, end error) {
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

// failed is why nothing can be written any more, if that is so.
func (b *inbox) failed() error {
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

func (b *inbox) wakeLocked() {
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// Close implements [io.Closer].
func (b *inbox) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.wakeLocked()
	return nil
}

// SetDeadline implements [net.Conn]. Writes do not wait.
func (b *inbox) SetDeadline(t time.Time) error { return b.SetReadDeadline(t) }

// SetReadDeadline implements [net.Conn].
func (b *inbox) SetReadDeadline(t time.Time) error {
	if !b.deadlines {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deadline = t
	b.wakeLocked()
	return nil
}

// SetWriteDeadline implements [net.Conn].
func (b *inbox) SetWriteDeadline(time.Time) error { return nil }
