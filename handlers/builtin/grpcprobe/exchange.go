package grpcprobe

import (
	"encoding/binary"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/daeace23/prober/handlers/builtin/internal/http2"
	"github.com/daeace23/prober/handlers/builtin/internal/network"
)

const maxReceived = 4 << 10 // bytes; what is longer is left to grpc-go

// exchange is one health check over a connection. It is used by one goroutine.
// See RATIONALE.md, "Why does a gRPC probe not use grpc-go?"
type exchange struct {
	http2.Exchange
	in       [maxReceived]byte
	body     []byte // of the answer
	response healthpb.HealthCheckResponse
	state
}

// state is the part of an exchange that each attempt begins anew.
type state struct {
	progress *network.Progress
	early    int    // bytes that were received when the request was sent
	fields   fields // of the last header block
	asked    bool   // the request was sent
	began    bool   // the answer has begun
	decoded  bool   // its message is in response
	goesAway bool   // the server has sent a GOAWAY
	failure  error  // the status of the answer, nil if it is OK
}

var exchanges = sync.Pool{New: func() any {
	x := new(exchange)
	x.In, x.Limit, x.Allows = x.in[:0], maxReceived-http2.HeaderSize, allows
	x.Init(func(f hpack.HeaderField) { x.fields.add(f) })
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
	x.Reset()
	x.state, x.body = state{}, x.body[:0]
	exchanges.Put(x)
}

// run sends r once the server has sent its settings, as grpc-go does, and reads the answer. An error of
// conn is returned as it is.
func (x *exchange) run(conn net.Conn, r *request) error {
	x.Out = appendPreface(x.Out)
	err := x.Flush(conn)
	for err == nil && !x.Ended {
		settled := x.Settled
		if err = x.Read(conn); err == nil {
			err = x.HandleAll(x)
		}
		if x.Settled && !settled {
			x.progress.Enter(network.StepGRPC)
		}
		switch {
		case err != nil:
			return err
		case x.Ended && !x.appendEnd():
			return http2.ErrOther
		case x.Ended:
		case x.Settled && !x.asked:
			if x.Out, err = r.append(x.Out); err != nil {
				return err
			}
			x.asked, x.Queued.Request, x.early = true, true, len(x.In)
		}
		_ = x.Flush(conn) // of a broken connection, the rest can still be read
	}
	return err
}

// cancel tells the server that the answer to its request is not awaited any more.
func (x *exchange) cancel(conn net.Conn) {
	if x.asked {
		x.Out = http2.AppendReset(x.Out[:0], http2.Cancel)
		x.appendEnd()
		_ = conn.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)) // the former one has passed
		_, _ = conn.Write(x.Out)
	}
}

// appendEnd appends what grpc-go sends before it closes a connection that the server has not begun to
// close. It returns false if a server that does close it says that it has not seen the request: grpc-go
// repeats that, even if it was answered.
func (x *exchange) appendEnd() (seen bool) {
	for rest := x.In[x.Handled:]; len(rest) >= http2.HeaderSize && !x.goesAway; {
		h := http2.HeaderOf(rest)
		end := http2.HeaderSize + h.Size
		if h.Kind == http2.GoAway && x.Exchange.Expects(h, x) {
			if x.goesAway = true; end <= len(rest) && !x.Handle(h, rest[http2.HeaderSize:end]) {
				return false
			}
		}
		rest = rest[min(end, len(rest)):]
	}
	if !x.goesAway {
		x.Out = appendGoAway(x.Out)
	}
	return true
}

// Expects implements [http2.Answer].
func (x *exchange) Expects(h http2.Header) bool {
	end := h.Has(http2.EndStream)
	switch h.Kind {
	case http2.GoAway:
		return x.asked
	case http2.Headers:
		return x.asked && (end || !x.began)
	case http2.Data:
		return !end && x.began
	default: // a window of a stream
		return true
	}
}

// Handle implements [http2.Answer].
func (x *exchange) Handle(h http2.Header, payload []byte) bool {
	switch h.Kind {
	case http2.GoAway:
		// A server that shuts down finishes the streams up to the one it names. A new connection
		// would be refused.
		x.goesAway = true
		last := binary.BigEndian.Uint32(payload) &^ (1 << 31)
		return last >= http2.StreamID && last%2 == 1
	case http2.Headers:
		return x.handleHeaders(payload, h.Has(http2.EndStream))
	default: // DATA
		return x.handleData(payload)
	}
}

// allows reports whether the request obeys a setting.
func allows(s http2.Setting) bool {
	switch s.ID {
	case http2.HeaderTableSize:
		return s.Value >= http2.TableSize
	case http2.MaxConcurrentStreams:
		return s.Value > 0
	case http2.InitialWindowSize, http2.MaxHeaderListSize:
		return s.Value >= maxRequest
	default:
		return true
	}
}

// handleHeaders handles a header block. end reports whether it ends the answer.
func (x *exchange) handleHeaders(block []byte, end bool) bool {
	x.fields = fields{}
	if !x.Decode(block) {
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
	x.Ended = true
	return x.decoded || x.failure != nil && len(x.body) == 0
}
