package grpcprobe

import (
	"context"
	"encoding/binary"
	"strconv"
	"time"

	"google.golang.org/grpc/encoding"

	"github.com/daeace23/prober/handlers/builtin/internal/http2"
)

// appendGoAway appends the frame that grpc-go sends before it closes a connection.
func appendGoAway(b []byte) []byte {
	const lastStream, code, text = http2.StreamID, 0, "client transport shutdown"
	b = http2.AppendHeader(b, http2.GoAway, 0, http2.ConnectionID, 8+len(text))
	b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, lastStream), code)
	return append(b, text...)
}

// request is the request of a health check. Each text has at most [maxText] bytes.
type request struct {
	secure    bool
	authority string
	userAgent string
	deadline  time.Time // the zero value means none
	service   string
}

// maxText is the maximum length of a text in a request, in bytes. maxRequest is larger than the header fields
// or the message can be.
const (
	maxText    = 512
	maxRequest = 4 * maxText
)

// appendPreface appends the beginning of a connection, with empty settings.
func appendPreface(b []byte) []byte { return http2.AppendSettings(append(b, http2.ClientPreface...)) }

// append appends the request to b, with the same fields in the same order as grpc-go. The only error is an
// expired deadline.
func (r *request) append(b []byte) ([]byte, error) {
	var timeout time.Duration
	if !r.deadline.IsZero() {
		if timeout = time.Until(r.deadline); timeout <= 0 {
			return b, context.DeadlineExceeded
		}
	}
	start := len(b)
	b = http2.AppendHeader(b, http2.Headers, http2.EndHeaders, http2.StreamID, 0)
	b = r.appendFields(b, timeout)
	http2.SetSize(b[start:], len(b)-start-http2.HeaderSize)
	return r.appendMessage(b), nil
}

// appendFields appends the header block in HPACK, see RFC 7541, section 6. Like grpc-go, whose later requests
// refer to them, it adds fields to the server's table. A timeout of 0 means none.
func (r *request) appendFields(b []byte, timeout time.Duration) []byte {
	const (
		post, schemeHTTP, schemeHTTPS = 0x80 | 3, 0x80 | 6, 0x80 | 7 // fields of the static table
		authority, path               = 1, 4                         // names of the static table
		contentType, userAgent        = 31, 58
		indexed                       = 0x40 // a literal that is added to the table
	)
	scheme := byte(schemeHTTP)
	if r.secure {
		scheme = schemeHTTPS
	}
	b = append(b, post, scheme)
	b = http2.AppendText(append(b, indexed|path), "/grpc.health.v1.Health/Check")
	b = http2.AppendText(append(b, indexed|authority), r.authority)
	b = http2.AppendText(append(b, indexed|contentType), "application/grpc")
	b = http2.AppendText(append(b, indexed|userAgent), r.userAgent)
	b = http2.AppendText(http2.AppendText(append(b, indexed), "te"), "trailers")
	// grpc-go names every compressor that the program has registered. It has no API that lists them.
	if encoding.GetCompressor("gzip") != nil {
		b = http2.AppendText(http2.AppendText(append(b, indexed), "grpc-accept-encoding"), "gzip")
	}
	if timeout > 0 {
		var digits [16]byte
		b = http2.AppendText(append(b, indexed), "grpc-timeout")
		b = http2.AppendText(b, appendTimeout(digits[:0], timeout))
	}
	return b
}

// appendTimeout appends the timeout as at most eight digits and a unit, rounded up, as grpc-go does.
func appendTimeout(b []byte, d time.Duration) []byte {
	for _, unit := range [...]struct {
		length time.Duration
		name   byte
	}{{time.Nanosecond, 'n'}, {time.Microsecond, 'u'}, {time.Millisecond, 'm'}, {time.Second, 'S'}, {time.Minute, 'M'}, {time.Hour, 'H'}} {
		n := d / unit.length
		if d%unit.length > 0 {
			n++
		}
		if n < 1e8 {
			return append(strconv.AppendInt(b, int64(n), 10), unit.name)
		}
	}
	return b // unreachable: a time.Duration is shorter
}

// appendMessage appends the frame with the HealthCheckRequest. It ends the client's side of the stream.
func (r *request) appendMessage(b []byte) []byte {
	var message []byte
	if r.service != "" {
		message = binary.AppendUvarint(append(message, 1<<3|2), uint64(len(r.service))) // field 1, a string
		message = append(message, r.service...)
	}
	b = http2.AppendHeader(b, http2.Data, http2.EndStream, http2.StreamID, messageHeaderSize+len(message))
	b = binary.BigEndian.AppendUint32(append(b, 0), uint32(len(message))) // not compressed
	return append(b, message...)
}

// messageHeaderSize is the size of the header of a gRPC message, in bytes.
const messageHeaderSize = 5
