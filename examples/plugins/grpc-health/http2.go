package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/net/http2/hpack"
)

// The part of HTTP/2 (RFC 9113) that one call on one connection needs. With
// google.golang.org/grpc instead, the guest would be six times as large.

// The types of frames.
const (
	frameData         = 0
	frameHeaders      = 1
	frameRSTStream    = 3
	frameSettings     = 4
	framePushPromise  = 5
	framePing         = 6
	frameGoAway       = 7
	frameContinuation = 9
)

// The flags of frames.
const (
	flagAck        = 1 // of SETTINGS and PING
	flagEndStream  = 1
	flagEndHeaders = 4
	flagPadded     = 8
	flagPriority   = 32
)

const (
	preface    = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	stream     = 1        // the one call
	maxFrame   = 16 << 10 // default limit of a frame, in bytes
	maxHeaders = 64 << 10
	maxBody    = 32 << 10 // below the initial window of a stream, 65,535 bytes
)

// transport is a connection that carries one call.
type transport struct {
	conn    net.Conn
	r       *bufio.Reader
	started bool // the server's first frame was SETTINGS
	decoder *hpack.Decoder
	resp    response
	block   []byte // of incomplete headers
	ends    bool   // whether the response ends with these headers
}

// response is the response of the server.
type response struct {
	headers []field // trailers too
	body    []byte
}

// field returns the last value of a name.
func (r *response) field(name string) string {
	for i := len(r.headers) - 1; i >= 0; i-- {
		if r.headers[i].name == name {
			return r.headers[i].value
		}
	}
	return ""
}

func newTransport(conn net.Conn) *transport {
	t := &transport{conn: conn, r: bufio.NewReader(conn)}
	t.decoder = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		t.resp.headers = append(t.resp.headers, field{f.Name, f.Value})
	})
	t.decoder.SetMaxStringLength(maxFrame)
	return t
}

func appendFrame(b []byte, kind, flags byte, id uint32, payload []byte) []byte {
	b = append(b, byte(len(payload)>>16), byte(len(payload)>>8), byte(len(payload)), kind, flags)
	b = binary.BigEndian.AppendUint32(b, id)
	return append(b, payload...)
}

// send writes the preface and the whole request at once.
func (t *transport) send(headers []field, body []byte) error {
	// ENABLE_PUSH is 0.
	b := appendFrame([]byte(preface), frameSettings, 0, 0, []byte{0, 2, 0, 0, 0, 0})
	kind := byte(frameHeaders)
	for block := encode(headers); ; kind = frameContinuation {
		part := block[:min(len(block), maxFrame)]
		block = block[len(part):]
		if len(block) == 0 {
			b = appendFrame(b, kind, flagEndHeaders, stream, part)
			break
		}
		b = appendFrame(b, kind, 0, stream, part)
	}
	b = appendFrame(b, frameData, flagEndStream, stream, body)
	_, err := t.conn.Write(b)
	return err
}

// blockWriter collects the output of the encoder.
type blockWriter []byte

func (w *blockWriter) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}

func encode(headers []field) []byte {
	var w blockWriter
	e := hpack.NewEncoder(&w)
	for _, f := range headers {
		// each header is sent once, so none needs an entry in the table
		_ = e.WriteField(hpack.HeaderField{Name: f.name, Value: f.value, Sensitive: true})
	}
	return w
}

// receive reads to the end of the response.
func (t *transport) receive() (*response, error) {
	for {
		kind, flags, id, payload, err := t.frame()
		if err != nil {
			return nil, err
		}
		done, err := t.handle(kind, flags, id, payload)
		if err != nil {
			return nil, err
		}
		if done {
			return &t.resp, nil
		}
	}
}

// frame reads one frame.
func (t *transport) frame() (kind, flags byte, id uint32, payload []byte, err error) {
	if !t.started {
		// a server of another protocol begins with other bytes
		start, err := t.r.Peek(9)
		if len(start) == 0 {
			return 0, 0, 0, nil, err // the next read would not return this error
		}
		if len(start) < 9 || start[3] != frameSettings || start[0] != 0 {
			rest, _ := t.r.Peek(t.r.Buffered())
			return 0, 0, 0, nil, fmt.Errorf("the server does not speak HTTP/2: it says %.60q", rest)
		}
		t.started = true
	}
	var head [9]byte
	if _, err := io.ReadFull(t.r, head[:]); err != nil {
		return 0, 0, 0, nil, err
	}
	n := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
	if n > maxFrame {
		return 0, 0, 0, nil, fmt.Errorf("a frame of %d bytes", n)
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(t.r, payload)
	return head[3], head[4], binary.BigEndian.Uint32(head[5:]) &^ (1 << 31), payload, err
}

// handle handles a frame, and reports whether the response has ended.
func (t *transport) handle(kind, flags byte, id uint32, payload []byte) (done bool, err error) {
	if (t.block != nil) != (kind == frameContinuation) {
		return false, errors.New("a CONTINUATION frame is missing or unexpected")
	}
	switch kind {
	case frameSettings, framePing:
		if flags&flagAck != 0 {
			return false, nil
		}
		if kind == frameSettings {
			payload = nil
		}
		// a server that closes the connection sends the reason first
		_, _ = t.conn.Write(appendFrame(nil, kind, flagAck, 0, payload))
		return false, nil
	case frameGoAway:
		return false, goAway(payload)
	case framePushPromise:
		return false, errors.New("the server pushes, which it was told not to")
	case frameRSTStream:
		if id == stream && len(payload) == 4 {
			return false, fmt.Errorf("the server resets the call: %s", errorName(binary.BigEndian.Uint32(payload)))
		}
	}
	if id != stream {
		return false, nil
	}
	switch kind {
	case frameData:
		payload, err = unpad(flags, payload)
		if t.resp.body = append(t.resp.body, payload...); len(t.resp.body) > maxBody {
			err = fmt.Errorf("the answer has more than %d bytes", maxBody)
		}
		return flags&flagEndStream != 0, err
	case frameHeaders, frameContinuation:
		return t.headers(kind, flags, payload)
	default:
		return false, nil
	}
}

// headers takes a part of headers, or of trailers.
func (t *transport) headers(kind, flags byte, payload []byte) (done bool, err error) {
	if kind == frameHeaders {
		if payload, err = unpad(flags, payload); err != nil {
			return false, err
		}
		if flags&flagPriority != 0 {
			payload = payload[min(5, len(payload)):]
		}
		t.ends = flags&flagEndStream != 0
		t.block = []byte{}
	}
	if t.block = append(t.block, payload...); len(t.block) > maxHeaders {
		return false, fmt.Errorf("the headers have more than %d bytes", maxHeaders)
	}
	if flags&flagEndHeaders == 0 {
		return false, nil
	}
	block := t.block
	t.block = nil
	if _, err := t.decoder.Write(block); err != nil {
		return false, fmt.Errorf("headers: %w", err)
	}
	if err := t.decoder.Close(); err != nil {
		return false, fmt.Errorf("headers: %w", err)
	}
	return t.ends, nil
}

func unpad(flags byte, payload []byte) ([]byte, error) {
	if flags&flagPadded == 0 {
		return payload, nil
	}
	if len(payload) == 0 || int(payload[0]) >= len(payload) {
		return nil, errors.New("a frame with more padding than content")
	}
	return payload[1 : len(payload)-int(payload[0])], nil
}

// goAway returns an error if the server will not answer the call.
func goAway(payload []byte) error {
	if len(payload) < 8 {
		return errors.New("a GOAWAY that is too short")
	}
	if binary.BigEndian.Uint32(payload)&^(1<<31) >= stream {
		return nil
	}
	text := ""
	if more := payload[8:]; len(more) > 0 {
		text = fmt.Sprintf(", %.100q", more)
	}
	return fmt.Errorf("the server goes away: %s%s", errorName(binary.BigEndian.Uint32(payload[4:])), text)
}

var errorNames = []string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR",
	"REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

func errorName(code uint32) string {
	if code < uint32(len(errorNames)) {
		return errorNames[code]
	}
	return fmt.Sprintf("error %d", code)
}
