package http2

import (
	"bytes"
	"errors"
	"net"
	"sync"
)

// Sent records the frames that were sent to the server after the preface.
type Sent struct {
	Acks, Pongs int
	Settings    bool // the client's SETTINGS
	Window      bool // a WINDOW_UPDATE for the connection
	Request     bool
}

// Replay sits between a library and a connection on which an exchange has begun. It drops frames that the
// library writes if they were already sent. Reads first return the bytes that were already received. The
// library may write on one goroutine and read on another one.
type Replay struct {
	Conn    net.Conn
	Preface []byte // the bytes that the library must write first
	Sent    Sent   // frames that the library will write and that were already sent
	// Early has the bytes received before the request was sent, and Late the bytes received after it.
	Early, Late []byte

	partial []byte // the frame that the library is writing
	ends    bool   // the header block that is being written ends the request
	asked   chan struct{}
	close   sync.Once
	closed  chan struct{}
}

// ErrPrefaceDiffers means that the library begins a connection with other bytes.
var ErrPrefaceDiffers = errors.New("the library begins a connection in another way")

// Replay returns the connection with which a library continues x. preface was already sent. If the
// request was sent, the first early bytes of x.In were received before it.
func (x *Exchange) Replay(conn net.Conn, preface []byte, early int) *Replay {
	r := &Replay{Conn: conn, Preface: preface, Sent: x.Sent, closed: make(chan struct{})}
	received := bytes.Clone(x.In)
	if !x.Sent.Request {
		early = len(received)
	} else {
		r.asked = make(chan struct{})
	}
	r.Early, r.Late = received[:early], received[early:]
	return r
}

// Write implements [net.Conn].
func (r *Replay) Write(p []byte) (int, error) {
	rest := p
	if n := min(len(r.Preface), len(p)); n > 0 {
		if !bytes.Equal(r.Preface[:n], p[:n]) {
			return 0, ErrPrefaceDiffers
		}
		r.Preface, rest = r.Preface[n:], p[n:]
	}
	if r.Sent == (Sent{}) && len(r.partial) == 0 {
		if len(rest) == 0 {
			return len(p), nil
		}
		n, err := r.Conn.Write(rest)
		return len(p) - len(rest) + n, err
	}
	if unsent := r.unsent(rest); len(unsent) > 0 {
		if _, err := r.Conn.Write(unsent); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// unsent adds p to the partial frame, and returns the complete frames that were not sent before.
func (r *Replay) unsent(p []byte) (unsent []byte) {
	r.partial = append(r.partial, p...)
	for len(r.partial) >= HeaderSize {
		h := HeaderOf(r.partial)
		end := HeaderSize + h.Size
		if end > len(r.partial) {
			break
		}
		if !r.drops(h) {
			unsent = append(unsent, r.partial[:end]...)
		}
		r.partial = r.partial[end:]
	}
	return unsent
}

// drops reports whether a frame with the header h was already sent, and updates Sent.
func (r *Replay) drops(h Header) (drops bool) {
	switch {
	case h.Kind == Settings && h.Has(Ack):
		if drops = r.Sent.Acks > 0; drops {
			r.Sent.Acks--
		}
	case h.Kind == Ping && h.Has(Ack):
		if drops = r.Sent.Pongs > 0; drops {
			r.Sent.Pongs--
		}
	case h.Kind == Settings:
		drops, r.Sent.Settings = r.Sent.Settings, false
	case h.Kind == WindowUpdate && h.Stream == ConnectionID:
		drops, r.Sent.Window = r.Sent.Window, false
	case h.Stream == StreamID && (h.Kind == Headers || h.Kind == Continuation || h.Kind == Data):
		drops = r.Sent.Request
		r.ends = r.ends || h.Kind != Continuation && h.Has(EndStream)
		if drops && r.ends && (h.Kind == Data || h.Has(EndHeaders)) {
			r.Sent.Request = false
			close(r.asked)
		}
	}
	return drops
}

// Read reads bytes that were already received. ok is false if all of them were read. Before it returns
// bytes that were received after the request, it waits until the library has written the request: a
// library drops the frames of a stream that it does not know.
func (r *Replay) Read(p []byte) (n int, ok bool, err error) {
	if len(r.Early) > 0 {
		n = copy(p, r.Early)
		r.Early = r.Early[n:]
		return n, true, nil
	}
	if r.asked != nil {
		select {
		case <-r.asked:
		case <-r.closed:
			return 0, true, net.ErrClosed
		}
	}
	if len(r.Late) > 0 {
		n = copy(p, r.Late)
		r.Late = r.Late[n:]
		return n, true, nil
	}
	return 0, false, nil
}

// Close makes a waiting Read return. It does not close the connection.
func (r *Replay) Close() { r.close.Do(func() { close(r.closed) }) }
