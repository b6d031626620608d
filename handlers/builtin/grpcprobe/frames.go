package grpcprobe

import (
	"context"
	"encoding/binary"
	"strconv"
	"time"

	"google.golang.org/grpc/encoding"
)

// Frames of HTTP/2: RFC 9113, section 6.
const (
	frameData         = 0
	frameHeaders      = 1
	frameResetStream  = 3
	frameSettings     = 4
	framePing         = 6
	frameGoAway       = 7
	frameWindowUpdate = 8
	frameContinuation = 9

	flagEndStream  = 1
	flagAck        = 1
	flagEndHeaders = 4
	flagPadded     = 8
	flagPriority   = 0x20

	frameHeaderSize = 9 // bytes
	connectionID    = 0 // the stream of frames that concern the connection
	streamID        = 1 // the first stream of a client
)

// header is the header of a frame.
type header struct {
	size        int // of the payload
	kind, flags byte
	stream      uint32
}

// headerOf returns the header that b begins with.
func headerOf(b []byte) header {
	return header{
		size: int(b[0])<<16 | int(b[1])<<8 | int(b[2]), kind: b[3], flags: b[4],
		stream: binary.BigEndian.Uint32(b[5:]) &^ (1 << 31),
	}
}

// appendFrame appends the header of a frame, whose payload has size bytes.
func appendFrame(b []byte, kind, flags byte, stream uint32, size int) []byte {
	b = append(b, byte(size>>16), byte(size>>8), byte(size), kind, flags)
	return binary.BigEndian.AppendUint32(b, stream)
}

// appendGoAway appends the frame with which grpc-go closes a connection.
func appendGoAway(b []byte) []byte {
	const lastStream, code, text = streamID, 0, "client transport shutdown"
	b = appendFrame(b, frameGoAway, 0, connectionID, 8+len(text))
	b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, lastStream), code)
	return append(b, text...)
}

// appendCancel appends what grpc-go sends when it gives up a stream.
func appendCancel(b []byte) []byte {
	const cancel = 8
	return binary.BigEndian.AppendUint32(appendFrame(b, frameResetStream, 0, streamID, 4), cancel)
}

// request is what a health check sends. Each text has at most [maxText] bytes.
type request struct {
	secure    bool
	authority string
	userAgent string
	deadline  time.Time // the zero value means none
	service   string
}

// maxText is the most bytes of a text in a request, and maxRequest more than its header fields, or its
// message, can take.
const (
	maxText    = 512
	maxRequest = 4 * maxText
)

// printable reports whether s has only printable ASCII characters.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// appendPreface appends what begins a connection, with empty settings.
func appendPreface(b []byte) []byte {
	return appendFrame(append(b, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"...), frameSettings, 0, connectionID, 0)
}

// append appends the request to b. The fields and their order are those of grpc-go. The only error is that
// the deadline has passed.
func (r *request) append(b []byte) ([]byte, error) {
	var timeout time.Duration
	if !r.deadline.IsZero() {
		if timeout = time.Until(r.deadline); timeout <= 0 {
			return b, context.DeadlineExceeded
		}
	}
	b = appendFrame(b, frameHeaders, flagEndHeaders, streamID, 0)
	start := len(b)
	b = r.appendFields(b, timeout)
	size := len(b) - start
	b[start-frameHeaderSize+1], b[start-frameHeaderSize+2] = byte(size>>8), byte(size)
	return r.appendMessage(b), nil
}

// appendFields appends the header block in HPACK: RFC 7541, section 6. As with grpc-go, whose later requests refer to
// them, fields enter the table of the server. A timeout of 0 means none.
func (r *request) appendFields(b []byte, timeout time.Duration) []byte {
	const (
		post, schemeHTTP, schemeHTTPS = 0x80 | 3, 0x80 | 6, 0x80 | 7 // fields of the static table
		authority, path               = 1, 4                         // names of the static table
		contentType, userAgent        = 31, 58
		indexed                       = 0x40 // a literal that enters the table
	)
	scheme := byte(schemeHTTP)
	if r.secure {
		scheme = schemeHTTPS
	}
	b = append(b, post, scheme)
	b = appendText(append(b, indexed|path), "/grpc.health.v1.Health/Check")
	b = appendText(append(b, indexed|authority), r.authority)
	b = appendText(append(b, indexed|contentType), "application/grpc")
	b = appendText(append(b, indexed|userAgent), r.userAgent)
	b = appendText(appendText(append(b, indexed), "te"), "trailers")
	// grpc-go names every compressor that the program has registered. There is no list of them.
	if encoding.GetCompressor("gzip") != nil {
		b = appendText(appendText(append(b, indexed), "grpc-accept-encoding"), "gzip")
	}
	if timeout > 0 {
		var digits [16]byte
		b = appendText(append(b, indexed), "grpc-timeout")
		b = appendText(b, appendTimeout(digits[:0], timeout))
	}
	return b
}

// appendText appends a string literal of HPACK, not compressed.
func appendText[T string | []byte](b []byte, s T) []byte {
	if len(s) < 0x7f {
		b = append(b, byte(len(s)))
	} else {
		b = binary.AppendUvarint(append(b, 0x7f), uint64(len(s)-0x7f))
	}
	return append(b, s...)
}

// appendTimeout appends the timeout in at most eight digits and a unit, rounded up, as grpc-go does.
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
	return b // no duration is as long as that
}

// appendMessage appends the frame with the HealthCheckRequest, which ends the stream.
func (r *request) appendMessage(b []byte) []byte {
	var message []byte
	if r.service != "" {
		message = binary.AppendUvarint(append(message, 1<<3|2), uint64(len(r.service))) // field 1, a string
		message = append(message, r.service...)
	}
	b = appendFrame(b, frameData, flagEndStream, streamID, messageHeaderSize+len(message))
	b = binary.BigEndian.AppendUint32(append(b, 0), uint32(len(message))) // not compressed
	return append(b, message...)
}

// messageHeaderSize is the number of bytes in front of a message of gRPC.
const messageHeaderSize = 5
