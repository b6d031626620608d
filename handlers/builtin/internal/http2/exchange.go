package http2

import (
	"encoding/binary"
	"errors"
	"net"

	"golang.org/x/net/http2/hpack"
)

// ErrOther means that a server sent something that a library must handle.
var ErrOther = errors.New("not a plain answer over HTTP/2")

// TableSize is the size of the HPACK table in bytes: the default of RFC 9113, section 6.5.2.
const TableSize = 4 << 10

// maxWindow is the maximum size of a flow-control window, see RFC 9113, section 6.9.1.
const maxWindow = 1<<31 - 1

// firstWindow is the initial size of a connection's flow-control window.
const firstWindow = 1<<16 - 1

// Answer handles the frames that [Exchange] does not handle itself: HEADERS, DATA, GOAWAY, and
// WINDOW_UPDATE of a stream.
type Answer interface {
	// Expects reports whether a frame with the header h may come next.
	Expects(h Header) bool
	// Handle handles a frame. It returns false if a library must handle it. It sets Ended when the
	// answer is complete.
	Handle(h Header, payload []byte) bool
}

// Exchange is one request over a connection, and its answer. It is not safe for concurrent use.
type Exchange struct {
	In  []byte // received bytes; its capacity is the limit
	Out []byte // bytes to be written
	// Limit is the maximum size of a frame's payload in bytes.
	Limit int
	// Allows reports whether the request conforms to a valid setting of the server. Nil means that it
	// conforms to all settings.
	Allows  func(Setting) bool
	emit    func(hpack.HeaderField)
	decoder *hpack.Decoder
	State
}

// State is the part of an exchange that is reset for each attempt.
type State struct {
	Handled int  // number of handled bytes of In
	Settled bool // the server has sent its settings
	Ended   bool // the answer is complete
	Sent    Sent
	Queued  Sent  // frames that were sent or are in Out
	acked   bool  // the server has acknowledged the settings
	window  int64 // bytes that the server has added to the connection's window
}

// Init prepares x for a first attempt. Decode passes header fields to emit.
func (x *Exchange) Init(emit func(hpack.HeaderField)) {
	x.emit, x.decoder = emit, hpack.NewDecoder(TableSize, emit)
}

// Reset prepares x for another attempt, with the same buffers.
func (x *Exchange) Reset() {
	x.State = State{}
	x.In, x.Out = x.In[:0], x.Out[:0]
	x.decoder.SetMaxDynamicTableSize(0) // empties the table
	x.decoder.SetMaxDynamicTableSize(TableSize)
}

// Flush writes Out to conn.
func (x *Exchange) Flush(conn net.Conn) error {
	if len(x.Out) == 0 {
		return nil
	}
	x.Sent = x.Queued
	_, err := conn.Write(x.Out)
	x.Out = x.Out[:0]
	return err
}

// Read appends bytes from conn to In. It returns an error of conn only if nothing was read.
func (x *Exchange) Read(conn net.Conn) error {
	have := len(x.In)
	if have == cap(x.In) {
		return ErrOther
	}
	n, err := conn.Read(x.In[have:cap(x.In)])
	x.In = x.In[:have+n]
	if n > 0 {
		return nil
	}
	return err
}

// HandleAll handles the complete frames in In, up to the end of the answer. The only error is [ErrOther].
func (x *Exchange) HandleAll(answer Answer) error {
	for !x.Ended && len(x.In)-x.Handled >= HeaderSize {
		unread := x.In[x.Handled:]
		h := HeaderOf(unread)
		if !x.Expects(h, answer) {
			return ErrOther
		}
		end := HeaderSize + h.Size
		if end > len(unread) {
			return nil
		}
		if !x.handle(h, unread[HeaderSize:end], answer) {
			return ErrOther
		}
		x.Handled += end
	}
	return nil
}

// Expects reports whether a frame with the header h may come next.
func (x *Exchange) Expects(h Header, answer Answer) bool {
	if h.Size > x.Limit || !x.Settled && h.Kind != Settings {
		return false
	}
	switch h.Kind {
	case Settings:
		return h.Stream == ConnectionID && (!h.Has(Ack) || x.Settled && h.Size == 0)
	case Ping:
		return h.Stream == ConnectionID && h.Size == 8
	case WindowUpdate:
		return h.Size == 4 && (h.Stream == ConnectionID || answer.Expects(h))
	case Headers:
		return h.Stream == StreamID && h.Flags&(EndHeaders|Padded|Priority) == EndHeaders && answer.Expects(h)
	case Data:
		return h.Stream == StreamID && !h.Has(Padded) && answer.Expects(h)
	case GoAway:
		return h.Stream == ConnectionID && h.Size >= 8 && answer.Expects(h)
	default:
		return false
	}
}

// handle handles a frame. It returns false if a library must handle it.
func (x *Exchange) handle(h Header, payload []byte, answer Answer) bool {
	switch h.Kind {
	case Settings:
		if h.Has(Ack) {
			first := !x.acked
			x.acked = true
			return first
		}
		return x.handleSettings(payload)
	case Ping:
		if !h.Has(Ack) {
			x.Out = append(AppendHeader(x.Out, Ping, Ack, ConnectionID, len(payload)), payload...)
			x.Queued.Pongs++
		}
		return true
	case WindowUpdate:
		n := binary.BigEndian.Uint32(payload) &^ (1 << 31)
		if h.Stream == ConnectionID {
			x.window += int64(n)
		}
		return n > 0 && x.window <= maxWindow-firstWindow
	default:
		return answer.Handle(h, payload)
	}
}

// handleSettings acknowledges settings. It returns false if a setting is invalid, or if the request might
// violate it.
func (x *Exchange) handleSettings(payload []byte) bool {
	for ; len(payload) >= settingSize; payload = payload[settingSize:] {
		s := Setting{binary.BigEndian.Uint16(payload), binary.BigEndian.Uint32(payload[2:])}
		if !s.isValid() || x.Allows != nil && !x.Allows(s) {
			return false
		}
	}
	x.Settled = true
	x.Out = AppendHeader(x.Out, Settings, Ack, ConnectionID, 0)
	x.Queued.Acks++
	return len(payload) == 0
}

// isValid reports whether s has a valid value. Unknown settings are valid.
func (s Setting) isValid() bool {
	const enableConnect = 8 // RFC 8441
	switch s.ID {
	case EnablePush, enableConnect:
		return s.Value <= 1
	case InitialWindowSize:
		return s.Value <= maxWindow
	case MaxFrameSize:
		return s.Value >= 1<<14 && s.Value < 1<<24
	default:
		return true
	}
}

// Decode decodes a header block, and passes its fields to the function given to [Exchange.Init].
func (x *Exchange) Decode(block []byte) (ok bool) {
	_, err := x.decoder.Write(block)
	if err = errors.Join(err, x.decoder.Close()); err != nil {
		x.Init(x.emit) // after an error inside a block, a decoder cannot be used again
	}
	return err == nil
}
