package httpprobe

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/http2/hpack"

	"github.com/daeace23/prober/handlers/builtin/internal/http2"
	"github.com/daeace23/prober/handlers/builtin/internal/network"
	"github.com/daeace23/prober/probe"
)

// opening has the frames with which net/http begins a connection.
var opening = string(http2.AppendWindowUpdate(http2.AppendSettings([]byte(http2.ClientPreface),
	http2.Setting{ID: http2.EnablePush, Value: 0},
	http2.Setting{ID: http2.InitialWindowSize, Value: 4 << 20},
	http2.Setting{ID: http2.MaxFrameSize, Value: maxFrame},
	http2.Setting{ID: http2.MaxHeaderListSize, Value: 10 << 20},
), http2.ConnectionID, 1<<30))

const (
	maxFrame     = 16 << 10 // bytes, without the header
	maxFields    = 8 << 10  // of a response; net/http handles more
	maxAuthority = 512
)

// fieldsOf returns the HPACK header block of a request without the authority, which net/http sends first.
// It returns nil if net/http might write the block differently. header must be the header of plain lines.
func fieldsOf(target string, header http.Header) []byte {
	var block bytes.Buffer
	e, size := hpack.NewEncoder(&block), uint32(maxAuthority)
	add := func(name, value string) {
		f := hpack.HeaderField{Name: name, Value: value}
		size += f.Size()
		_ = e.WriteField(f) // a buffer returns no error
	}
	if !strings.HasPrefix(target, "/") {
		target = "/" + target
	}
	add(":method", http.MethodGet)
	add(":path", target)
	add(":scheme", "https")
	names := make([]string, 0, len(header))
	for name := range header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		values := header[name]
		switch name {
		case "Host":
			continue
		case "Cookie", "Proxy-Connection":
			return nil
		case "User-Agent":
			if values = values[:1]; values[0] == "" {
				continue
			}
		}
		for _, value := range values {
			add(strings.ToLower(name), value)
		}
	}
	if size > http2.TableSize { // HPACK would evict fields from its table
		return nil
	}
	return bytes.Clone(block.Bytes())
}

// appendHTTP2 appends the beginning of a connection and the request for at.
func (l *requestLines) appendHTTP2(b []byte, at network.Endpoint) []byte {
	const authority = 0x40 | 1 // name from the static table, value with incremental indexing
	b = append(b, opening...)
	start := len(b)
	b = http2.AppendHeader(b, http2.Headers, http2.EndHeaders|http2.EndStream, http2.StreamID, 0)
	var host [maxAuthority]byte
	b = http2.AppendShortText(append(b, authority), string(l.appendHost(host[:0], at)))
	b = append(b, l.fields...)
	http2.SetSize(b[start:], len(b)-start-http2.HeaderSize)
	return b
}

// stream is an ordinary response over HTTP/2: headers, and a body without trailers that is not longer than
// the output.
type stream struct {
	http2.Exchange
	head head
	body int // bytes of the body so far
}

// head has the relevant fields of a response.
type head struct {
	count    int
	size     uint32
	status   int
	length   int  // -1 if the header is missing
	location bool // there is a location header
	other    bool // net/http must handle a field
	complete bool
}

var streams = sync.Pool{New: func() any {
	s := &stream{Exchange: http2.Exchange{Limit: maxFrame}}
	s.Init(func(f hpack.HeaderField) { s.head.add(f) })
	return s
}}

// add adds a field.
func (h *head) add(f hpack.HeaderField) {
	h.count++
	h.size += f.Size()
	if h.other || h.size > maxFields || !http2.IsName(f.Name) || !http2.IsPrintable(f.Value) {
		h.other = true
		return
	}
	ok := true
	switch f.Name {
	case ":status":
		h.status, ok = parseDecimal(f.Value)
		h.other = !ok || h.count != 1 || len(f.Value) != len("200")
	case "content-length":
		h.other = h.length >= 0
		if h.length, ok = parseDecimal(f.Value); !ok {
			h.other = true
		}
	case "location":
		h.location = true
	default:
		h.other = strings.Contains(f.Name, ":") || f.Name == "trailer"
	}
}

// isOrdinary reports whether h belongs to a final response that is not a redirect.
func (h *head) isOrdinary() bool {
	return !h.other && h.status >= 200 && (!h.location || h.status < 300 || h.status > 399)
}

// Expects implements [http2.Answer].
func (s *stream) Expects(h http2.Header) bool {
	switch h.Kind {
	case http2.Headers:
		return !s.head.complete
	case http2.Data:
		return s.head.complete
	default:
		return false
	}
}

// Handle implements [http2.Answer].
func (s *stream) Handle(h http2.Header, payload []byte) bool {
	if h.Kind == http2.Headers {
		s.head = head{length: -1}
		if !s.Decode(payload) || !s.head.isOrdinary() {
			return false
		}
		s.head.complete = true
	} else {
		s.body += len(payload)
	}
	s.Ended = h.Has(http2.EndStream)
	switch {
	case s.Ended:
		return s.head.length < 0 || s.head.length == s.body
	case s.head.length >= 0 && s.body > s.head.length:
		return false
	default:
		return s.body < probe.MaxOutput
	}
}

// content returns the body of a complete response, at most [probe.MaxOutput] bytes. It joins the parts of
// the body in place.
func (s *stream) content() []byte {
	rest, body := s.In[:s.Handled], s.In[:0]
	for len(rest) > 0 {
		h := http2.HeaderOf(rest)
		end := http2.HeaderSize + h.Size
		if h.Kind == http2.Data {
			body = append(body, rest[http2.HeaderSize:end]...)
		}
		rest = rest[end:]
	}
	return body[:min(len(body), probe.MaxOutput)]
}

// askHTTP2 is like ask, over HTTP/2.
func (x *exchange) askHTTP2() (ok bool) {
	s := streams.Get().(*stream)
	x.stream, s.In = s, x.small[:0]
	s.Out = x.lines.appendHTTP2(s.Out, x.at)
	s.Queued = http2.Sent{Settings: true, Window: true, Request: true}
	if x.writeErr = s.Flush(x.conn); x.writeErr != nil {
		return false
	}
	for !s.Ended {
		if len(s.In) == cap(s.In) {
			if x.received = s.In; !x.grow() {
				return false
			}
			s.In = x.received
		}
		if x.readErr = s.Read(x.conn); x.readErr != nil || s.HandleAll(s) != nil {
			return false
		}
		if s.head.complete {
			x.progress.FirstByte()
		}
		if s.head.complete && !s.Ended && !x.answered {
			x.progress.Answered(s.head.status)
			x.answered = true
		}
		if sent := s.Sent; s.Flush(x.conn) != nil {
			s.Sent = sent // net/http will get the error too; received bytes can still be read
		}
	}
	return true
}
