package grpcprobe

import (
	"bytes"
	"errors"
	"net"
	"runtime"
	"sync"
	"syscall"

	"google.golang.org/grpc/credentials"

	"github.com/daeace23/prober/handlers/builtin/internal/network"
)

// handshake is the result of a handshake of TLS. Without TLS, conn is the connection itself.
type handshake struct {
	conn net.Conn
	info credentials.AuthInfo
	err  error
}

// begun is the connection of an attempt that grpc-go continues. It drops what grpc-go writes and the
// server has already, and returns what was received before. Then it is the connection. grpc-go
// writes on one goroutine at a time, and reads on one.
type begun struct {
	net.Conn
	handshake handshake
	preface   []byte        // what grpc-go has to write first
	sent      sent          // what it writes then that the server has already
	partial   []byte        // the frame that grpc-go is writing
	early     []byte        // received before the request was sent
	late      []byte        // received after it
	err       error         // then returned by Read, if it is not nil
	asked     chan struct{} // closed when grpc-go has written the request; nil if it was not sent before
	close     sync.Once
	closed    chan struct{}
}

// sent counts the frames after the preface that the server has got.
type sent struct {
	acks, pongs int
	request     bool
}

var errPrefaceDiffers = errors.New("grpc-go begins a connection in another way")

// resume returns the connection for grpc-go to continue with, after the error err of x.
func (x *exchange) resume(conn net.Conn, h handshake, err error) *begun {
	b := &begun{Conn: conn, handshake: h, preface: appendPreface(nil), sent: x.sent, closed: make(chan struct{})}
	if h.err != nil {
		return b
	}
	b.Conn = h.conn
	received, early := bytes.Clone(x.in[:x.received]), x.received
	if x.asked {
		b.asked, early = make(chan struct{}), x.early
	}
	b.early, b.late = received[:early], received[early:]
	if err != errOther {
		b.err = b.readError(err)
	}
	return b
}

// readError returns an error of a socket as grpc-go has it. On Linux, grpc-go reads from sockets without
// package net.
func (b *begun) readError(err error) error {
	switch b.Conn.(type) {
	case *network.Conn, *net.TCPConn, *net.UnixConn:
		if errno, ok := errors.AsType[syscall.Errno](err); ok && runtime.GOOS == "linux" {
			return errno
		}
	}
	return err
}

// Write implements [net.Conn].
func (b *begun) Write(p []byte) (int, error) {
	if len(b.preface) > 0 {
		if !bytes.HasPrefix(b.preface, p) {
			return 0, errPrefaceDiffers // grpc-go makes another connection
		}
		b.preface = b.preface[len(p):]
		return len(p), nil
	}
	if b.sent == (sent{}) && len(b.partial) == 0 {
		return b.Conn.Write(p)
	}
	var unsent []byte
	b.partial = append(b.partial, p...)
	for len(b.partial) >= frameHeaderSize {
		h := headerOf(b.partial)
		end := frameHeaderSize + h.size
		if end > len(b.partial) {
			break
		}
		if !b.drops(h) {
			unsent = append(unsent, b.partial[:end]...)
		}
		b.partial = b.partial[end:]
	}
	if len(unsent) > 0 {
		if _, err := b.Conn.Write(unsent); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// drops reports whether the server has got the next frame, with the header h, already.
func (b *begun) drops(h header) bool {
	ack := h.flags&flagAck != 0
	switch {
	case h.kind == frameSettings && ack && b.sent.acks > 0:
		b.sent.acks--
		return true
	case h.kind == framePing && ack && b.sent.pongs > 0:
		b.sent.pongs--
		return true
	case h.stream == streamID && b.sent.request && (h.kind == frameHeaders || h.kind == frameContinuation || h.kind == frameData):
		if h.kind == frameData && h.flags&flagEndStream != 0 {
			b.sent.request = false
			close(b.asked)
		}
		return true
	default:
		return false
	}
}

// Read implements [net.Conn]. What was received after the request waits until grpc-go has written it:
// grpc-go drops the frames of a stream that it does not know.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.early) > 0 {
		n := copy(p, b.early)
		b.early = b.early[n:]
		return n, nil
	}
	if b.asked != nil {
		select {
		case <-b.asked:
		case <-b.closed:
			return 0, net.ErrClosed
		}
	}
	if len(b.late) > 0 {
		n := copy(p, b.late)
		b.late = b.late[n:]
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.Conn.Read(p)
	return n, b.readError(err)
}

// Close implements [net.Conn].
func (b *begun) Close() error {
	b.close.Do(func() { close(b.closed) })
	return b.Conn.Close()
}
