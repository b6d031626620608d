package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// request is one unary call.
type request struct {
	scheme, authority, path string
	timeout                 time.Duration // 0: none
	metadata                []field
	message                 []byte
}

// field is a name and a value of a header.
type field struct{ name, value string }

// check returns an error if a metadata field is not allowed.
func (f field) check() error {
	bad := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("-_.", c)
	}
	switch {
	case f.name == "" || strings.IndexFunc(f.name, bad) >= 0:
		return fmt.Errorf("%.40q is not a valid name: it may have a-z, 0-9, -, _ and .", f.name)
	case strings.HasPrefix(f.name, "grpc-") || f.name == "te" || f.name == "content-type" || f.name == "connection":
		return fmt.Errorf("%s: the name belongs to gRPC", f.name)
	case strings.IndexFunc(f.value, func(c rune) bool { return c < ' ' || c > '~' }) >= 0:
		return fmt.Errorf("%s: the value has more than printable ASCII; a name that ends in -bin takes base64", f.name)
	}
	return nil
}

// reply is the end of a call.
type reply struct {
	code    int
	text    string // of the status
	message []byte
}

func (r *reply) said() string {
	if r.text == "" {
		return ""
	}
	return ": " + fmt.Sprintf("%.500s", r.text)
}

// Status codes of gRPC that the check distinguishes.
const (
	codeOK            = 0
	codeNotFound      = 5
	codeUnimplemented = 12
)

var codeNames = []string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
	"UNAUTHENTICATED",
}

func codeName(code int) string {
	if code < len(codeNames) {
		return codeNames[code]
	}
	return "code " + strconv.Itoa(code)
}

// call makes a unary call on a new connection.
func call(conn net.Conn, req *request) (*reply, error) {
	t := newTransport(conn)
	if err := t.send(req.headers(), frame(req.message)); err != nil {
		return nil, err
	}
	resp, err := t.receive()
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = errors.New("the server hung up without an answer")
	}
	if err != nil {
		return nil, err
	}
	return resp.reply()
}

func (req *request) headers() []field {
	headers := []field{
		{":method", "POST"},
		{":scheme", req.scheme},
		{":path", req.path},
		{":authority", req.authority},
		{"te", "trailers"},
		{"content-type", "application/grpc"},
		{"user-agent", "prober-grpc-health"},
	}
	if req.timeout > 0 {
		ms := (req.timeout + time.Millisecond - 1).Milliseconds()
		headers = append(headers, field{"grpc-timeout", strconv.FormatInt(min(ms, 99999999), 10) + "m"}) // eight digits at most
	}
	return append(headers, req.metadata...)
}

// frame returns a message in the form of gRPC, not compressed.
func frame(message []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	return append(b, message...)
}

func (r *response) reply() (*reply, error) {
	if status := r.field(":status"); status != "200" {
		return nil, fmt.Errorf("HTTP status %.20q; a gRPC server answers 200", status)
	}
	if kind := r.field("content-type"); !strings.HasPrefix(kind, "application/grpc") {
		return nil, fmt.Errorf("content-type %.60q; a gRPC server answers application/grpc", kind)
	}
	code, err := strconv.ParseUint(r.field("grpc-status"), 10, 31)
	if err != nil {
		return nil, fmt.Errorf("the answer ends with the grpc-status %.20q; want a number", r.field("grpc-status"))
	}
	rep := &reply{code: int(code), text: unescape(r.field("grpc-message"))}
	if code != codeOK {
		return rep, nil
	}
	switch body := r.body; {
	case len(body) < 5 || uint64(len(body)-5) < uint64(binary.BigEndian.Uint32(body[1:])):
		return nil, errors.New("the answer ends within its message")
	case body[0] != 0:
		return nil, errors.New("the answer is compressed, which was not asked for")
	default:
		rep.message = body[5:][:binary.BigEndian.Uint32(body[1:])]
		return rep, nil
	}
}

// unescape decodes the percent-encoding of the text of a status.
func unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if c, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// encodeRequest returns a HealthCheckRequest: the service is its field 1.
func encodeRequest(service string) []byte {
	if service == "" {
		return nil
	}
	b := binary.AppendUvarint([]byte{1<<3 | 2}, uint64(len(service)))
	return append(b, service...)
}

var errMessage = errors.New("the answer is no HealthCheckResponse")

// decodeResponse reads the field 1 of a HealthCheckResponse and skips all others.
func decodeResponse(b []byte) (status uint64, err error) {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return 0, errMessage
		}
		b = b[n:]
		size := 0
		switch tag & 7 {
		case 0:
			value, n := binary.Uvarint(b)
			if size = n; tag>>3 == 1 {
				status = value
			}
		case 1:
			size = 8
		case 2:
			if length, n := binary.Uvarint(b); length <= uint64(len(b)) {
				size = n + int(length)
			}
		case 5:
			size = 4
		}
		if size <= 0 || size > len(b) {
			return 0, errMessage
		}
		b = b[size:]
	}
	return status, nil
}
