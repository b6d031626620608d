package grpcprobe

import (
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/daeace23/prober/handlers/builtin/internal/http2"
)

// fields has the relevant fields of a header block.
type fields struct {
	count       int
	size        uint32
	status      string // :status
	contentType string
	code        string // grpc-status
	message     string // grpc-message
	other       bool   // grpc-go must handle a field
}

// maxFields is the maximum size of a header block, counted as in RFC 9113, section 6.5.2. grpc-go handles
// larger ones. It is the lowest limit that grpc-go itself may have.
const maxFields = 8 << 10

// add adds a field.
func (h *fields) add(f hpack.HeaderField) {
	h.count++
	h.size += f.Size()
	if h.other || h.size > maxFields || !http2.IsName(f.Name) || !http2.IsPrintable(f.Value) {
		h.other = true
		return
	}
	switch f.Name {
	case ":status":
		h.other = h.count != 1
		h.status = f.Value
	case "content-type":
		h.setOnce(&h.contentType, f.Value)
	case "grpc-status":
		h.setOnce(&h.code, f.Value)
	case "grpc-message":
		h.setOnce(&h.message, f.Value)
	case "grpc-encoding":
		h.other = f.Value != "identity"
	default:
		// -bin fields must be valid base64, and one of them may replace the status. grpc-go checks that.
		h.other = strings.HasPrefix(f.Name, ":") || strings.HasSuffix(f.Name, "-bin")
	}
}

func (h *fields) setOnce(field *string, value string) {
	h.other = *field != ""
	*field = value
}

// begins reports whether h has the headers of an answer with a message.
func (h *fields) begins() bool {
	return !h.other && h.status == "200" && h.isGRPC() && h.code == "" && h.message == ""
}

// ends reports whether h has the trailers of an answer.
func (h *fields) ends() bool {
	return !h.other && h.status == "" && h.contentType == "" && h.code != ""
}

// isWhole reports whether h has both headers and trailers, of an answer without a message.
func (h *fields) isWhole() bool {
	return !h.other && h.status == "200" && h.isGRPC() && h.code != ""
}

// isGRPC reports whether the content type belongs to gRPC.
func (h *fields) isGRPC() bool {
	rest, ok := strings.CutPrefix(h.contentType, "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// statusOf returns the status in h as an error, nil for OK. known is false if grpc-go must decode it.
func (h *fields) statusOf() (err error, known bool) {
	if len(h.code) > 9 || strings.Trim(h.code, "0123456789") != "" {
		return nil, false
	}
	code, err := strconv.ParseUint(h.code, 10, 32)
	if err != nil {
		return nil, false
	}
	message, err := url.PathUnescape(h.message)
	if err != nil {
		return nil, false
	}
	return status.Error(codes.Code(code), message), true
}
