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

const maxReceived = 4 << 10 // bytes; grpc-go handles longer answers

// exchange is one health check over a connection. It is used by one goroutine.
type exchange struct {
	http2.Exchange
	in       [maxReceived]byte
	body     []byte // body of the answer
	response healthpb.HealthCheckResponse
	state
}

// state is the part of an exchange that is reset for each attempt.
type state struct {
	progress *network.Progress
	early    int    // number of bytes received before the request was sent
	fields   fields // the last header block
	asked    bool   // the request was sent
	began    bool   // the answer has begun
	decoded  bool   // the message is in response
	goesAway bool   // the server has sent a GOAWAY
	failure  error  // status of the answer; nil if it is OK
}

var exchanges = sync.Pool{New: func() any {
	x := new(exchange)
	x.In, x.Limit, x.Allows = x.in[:0], maxReceived-http2.HeaderSize, allows
	x.Init(func(f hpack.HeaderField) { x.fields.add(f) })
	return x
}}

// newExchange returns an exchange from the pool. The caller calls release after its use.
func newExchange(progress *network.Progress) *exchange {
	x := exchanges.Get().(*exchange)
	x.progress = progress
	return x
}

// release returns x to the pool.
func (x *exchange) release() {
	x.Reset()
	x.state, x.body = state{}, x.body[:0]
	exchanges.Put(x)
}

// run waits for the server's settings, as grpc-go does, sends r, and reads the answer. It returns errors of
// conn unchanged.
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
		_ = x.Flush(conn) // ignore the error, because received bytes can still be read
	}
	return err
}

// cancel resets the stream, to tell the server that the client does not wait for the answer any more.
func (x *exchange) cancel(conn net.Conn) {
	if x.asked {
		x.Out = http2.AppendReset(x.Out[:0], http2.Cancel)
		x.appendEnd()
		_ = conn.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)) // the previous deadline has passed
		_, _ = conn.Write(x.Out)
	}
}

// appendEnd appends the frames that grpc-go sends before it closes a connection, unless the server has
// begun to close it. It returns false if the server's GOAWAY says that it has not seen the request.
// grpc-go repeats such a request, even if it was answered.
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
	default: // a WINDOW_UPDATE of a stream
		return true
	}
}

// Handle implements [http2.Answer].
func (x *exchange) Handle(h http2.Header, payload []byte) bool {
	switch h.Kind {
	case http2.GoAway:
		// A server that shuts down finishes the streams up to the named one. It would refuse a new
		// connection.
		x.goesAway = true
		last := binary.BigEndian.Uint32(payload) &^ (1 << 31)
		return last >= http2.StreamID && last%2 == 1
	case http2.Headers:
		return x.handleHeaders(payload, h.Has(http2.EndStream))
	default: // DATA
		return x.handleData(payload)
	}
}

// allows reports whether the request conforms to a setting.
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

// handleHeaders handles a header block. end means that it ends the answer.
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

// handleData handles a part of the only message, which must not be compressed.
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

// finish decodes the status of a complete answer. If the status is OK, there must be a message.
func (x *exchange) finish() (known bool) {
	if x.failure, known = x.fields.statusOf(); !known {
		return false
	}
	x.Ended = true
	return x.decoded || x.failure != nil && len(x.body) == 0
}
