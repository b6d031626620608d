package grpcprobe

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/daeace23/prober/handlers/builtin/internal/network"
)

// errOther means that a server sent something which is left to grpc-go.
var errOther = errors.New("not a plain answer to a health check")

const (
	maxReceived = 4 << 10 // bytes; what is longer is left to grpc-go
	maxTable    = 4 << 10 // of HPACK, the default of RFC 9113, section 6.5.2
)

// exchange is one health check over a connection. It is used by one goroutine.
type exchange struct {
	in       [maxReceived]byte
	out      []byte // what is to be written
	body     []byte // of the answer
	headers  *hpack.Decoder
	response healthpb.HealthCheckResponse
	state
}

// state is the part of an exchange that each attempt begins anew.
type state struct {
	progress *network.Progress
	received int    // bytes of in
	handled  int    // bytes of in
	early    int    // bytes of in when the request was sent
	fields   fields // of the last header block
	queued   sent   // with what is in out
	sent     sent
	settings bool  // the server has sent its settings
	asked    bool  // the request was sent
	began    bool  // the answer has begun
	decoded  bool  // its message is in response
	ended    bool  // the answer is whole
	goesAway bool  // the server has sent a GOAWAY
	failure  error // the status of the answer, nil if it is OK
}

var exchanges = sync.Pool{New: func() any {
	x := new(exchange)
	x.renewDecoder()
	return x
}}

// newExchange returns an exchange, for [exchange.release] after its use.
func newExchange(progress *network.Progress) *exchange {
	x := exchanges.Get().(*exchange)
	x.progress = progress
	return x
}

// release makes x available to other attempts.
func (x *exchange) release() {
	x.state = state{}
	x.out, x.body = x.out[:0], x.body[:0]
	x.headers.SetMaxDynamicTableSize(0) // which empties it
	x.headers.SetMaxDynamicTableSize(maxTable)
	exchanges.Put(x)
}

// renewDecoder gives x a decoder that is within no header block.
func (x *exchange) renewDecoder() {
	x.headers = hpack.NewDecoder(maxTable, func(f hpack.HeaderField) { x.fields.add(f) })
}

// run sends r once the server has sent its settings, as grpc-go does, and reads the answer. An error of
// conn is returned as it is.
func (x *exchange) run(conn net.Conn, r *request) error {
	x.out = appendPreface(x.out)
	_, err := conn.Write(x.out)
	for x.out = x.out[:0]; err == nil && !x.ended; x.out = x.out[:0] {
		if err = x.read(conn); err == nil {
			err = x.handleAll()
		}
		switch {
		case err != nil:
			return err
		case x.ended:
			x.appendEnd()
		case x.settings && !x.asked:
			if x.out, err = r.append(x.out); err != nil {
				return err
			}
			x.asked, x.queued.request, x.early = true, true, x.received
		}
		if len(x.out) > 0 {
			x.sent = x.queued
			_, _ = conn.Write(x.out) // of a broken connection, the rest can still be read
		}
	}
	return err
}

// cancel tells the server that the answer to its request is not awaited any more.
func (x *exchange) cancel(conn net.Conn) {
	if x.asked {
		x.out = appendCancel(x.out[:0])
		x.appendEnd()
		_ = conn.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)) // the former one has passed
		_, _ = conn.Write(x.out)
	}
}

// appendEnd appends what grpc-go sends before it closes a connection that the server has not begun to
// close.
func (x *exchange) appendEnd() {
	for x.received-x.handled >= frameHeaderSize && !x.goesAway {
		h := headerOf(x.in[x.handled:])
		x.goesAway = h.kind == frameGoAway && x.expects(h)
		x.handled += frameHeaderSize + h.size
	}
	if !x.goesAway {
		x.out = appendGoAway(x.out)
	}
}

// read reads behind what was received.
func (x *exchange) read(conn net.Conn) error {
	if x.received == len(x.in) {
		return errOther
	}
	n, err := conn.Read(x.in[x.received:])
	x.received += n
	if n > 0 {
		return nil
	}
	return err
}

// handleAll handles the frames that were read, to the end of the answer.
func (x *exchange) handleAll() error {
	for !x.ended && x.received-x.handled >= frameHeaderSize {
		unread := x.in[x.handled:x.received]
		h := headerOf(unread)
		if !x.expects(h) {
			return errOther
		}
		end := frameHeaderSize + h.size
		if end > len(unread) {
			return nil
		}
		if !x.handle(h, unread[frameHeaderSize:end]) {
			return errOther
		}
		x.handled += end
	}
	return nil
}

// expects reports whether a frame with the header h may come next.
func (x *exchange) expects(h header) bool {
	if h.size > maxReceived-frameHeaderSize || !x.settings && h.kind != frameSettings {
		return false
	}
	ack, end := h.flags&flagAck != 0, h.flags&flagEndStream != 0
	switch h.kind {
	case frameSettings:
		return h.stream == connectionID && (!ack || x.settings && h.size == 0)
	case framePing:
		return h.stream == connectionID && h.size == 8
	case frameWindowUpdate:
		return h.size == 4
	case frameGoAway:
		return h.stream == connectionID && h.size >= 8 && x.asked
	case frameHeaders:
		return h.stream == streamID && x.asked && h.flags&(flagEndHeaders|flagPadded|flagPriority) == flagEndHeaders && (end || !x.began)
	case frameData:
		return h.stream == streamID && h.flags&flagPadded == 0 && !end && x.began
	default:
		return false
	}
}

// handle handles a frame. It returns false for one that is left to grpc-go.
func (x *exchange) handle(h header, payload []byte) bool {
	switch h.kind {
	case frameSettings:
		return h.flags&flagAck != 0 || x.handleSettings(payload)
	case framePing:
		if h.flags&flagAck == 0 {
			x.out = append(appendFrame(x.out, framePing, flagAck, connectionID, len(payload)), payload...)
			x.queued.pongs++
		}
		return true
	case frameWindowUpdate:
		return binary.BigEndian.Uint32(payload)&^(1<<31) > 0
	case frameGoAway:
		// A server that shuts down finishes the streams up to the one it names. A new connection
		// would be refused.
		x.goesAway = true
		last := binary.BigEndian.Uint32(payload) &^ (1 << 31)
		return last >= streamID && last%2 == 1
	case frameHeaders:
		return x.handleHeaders(payload, h.flags&flagEndStream != 0)
	default: // frameData
		return x.handleData(payload)
	}
}

// handleSettings acknowledges settings. It returns false for some that the request might violate.
func (x *exchange) handleSettings(payload []byte) bool {
	const (
		tableSize     = 1
		maxStreams    = 3
		initialWindow = 4
		maxHeaderList = 6

		entry = 6 // bytes
	)
	for ; len(payload) >= entry; payload = payload[entry:] {
		value := binary.BigEndian.Uint32(payload[2:])
		switch binary.BigEndian.Uint16(payload) {
		case tableSize:
			if value < maxTable {
				return false
			}
		case maxStreams:
			if value == 0 {
				return false
			}
		case initialWindow:
			if value < maxRequest || value >= 1<<31 {
				return false
			}
		case maxHeaderList:
			if value < maxRequest {
				return false
			}
		}
	}
	if !x.settings {
		x.settings = true
		x.progress.Enter(network.StepGRPC)
	}
	x.out = appendFrame(x.out, frameSettings, flagAck, connectionID, 0)
	x.queued.acks++
	return len(payload) == 0
}

// handleHeaders handles a header block. end reports whether it ends the answer.
func (x *exchange) handleHeaders(block []byte, end bool) bool {
	x.fields = fields{}
	if _, err := x.headers.Write(block); err != nil || x.headers.Close() != nil {
		x.renewDecoder()
		return false
	}
	switch {
	case !end:
		x.began = true
		return x.fields.begins()
	case x.began:
		return x.fields.ends() && x.finish()
	default:
		return x.fields.isWhole() && x.finish()
	}
}

// handleData handles a part of the one message, which may not be compressed.
func (x *exchange) handleData(part []byte) bool {
	x.body = append(x.body, part...)
	if len(x.body) < messageHeaderSize {
		return true
	}
	message := x.body[messageHeaderSize:]
	size := binary.BigEndian.Uint32(x.body[1:])
	if x.body[0] != 0 || size > maxReceived || len(message) > int(size) {
		return false
	}
	x.decoded = len(message) == int(size)
	return !x.decoded || proto.Unmarshal(message, &x.response) == nil
}

// finish decodes the status of a whole answer. Without an error status, there must be a message.
func (x *exchange) finish() (known bool) {
	if x.failure, known = x.fields.statusOf(); !known {
		return false
	}
	x.ended = true
	return x.decoded || x.failure != nil && len(x.body) == 0
}
