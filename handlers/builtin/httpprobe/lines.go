package httpprobe

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/daeace23/prober/handlers/builtin/internal/network"
)

// requestLines has the parts of a plain request that all attempts of a probe share.
type requestLines struct {
	target string // as in the URL: "/path?query", "?query" or ""
	host   string // set by a header; "" means the host of the URL
	header string // the lines after Host, without the end
	fields []byte // HTTP/2 fields after the authority; nil without TLS, and if net/http must send them
}

// linesOf returns the lines of a request for base with the header own. A nil header means the default
// header of h. ok is false if net/http might refuse the request, or write it differently.
func (h *Handler) linesOf(base *url.URL, own http.Header) (l requestLines, ok bool) {
	target, ok := strings.CutPrefix(base.String(), base.Scheme+"://"+base.Host)
	if !ok || base.User != nil || base.Opaque != "" || base.Fragment != "" || !isVisible(target) {
		return l, false
	}
	l.target, l.header = strings.Clone(target), h.headerLines
	if own == nil {
		l.setFields(base, h.header)
		return l, l.header != ""
	}
	l.host = own.Get("Host")
	for i := range len(l.host) {
		if c := l.host[i]; !isHostByte(c) && c != ':' && c != '[' && c != ']' {
			return l, false
		}
	}
	if l.header, ok = headerLines(own); ok {
		l.setFields(base, own)
	}
	return l, ok
}

// setFields sets the fields for HTTP/2.
func (l *requestLines) setFields(base *url.URL, header http.Header) {
	if base.Scheme == "https" && len(l.host) <= maxAuthority {
		l.fields = fieldsOf(l.target, header)
	}
}

// Ends of a request. A transport whose connections serve one request adds closing.
const (
	closing = "Connection: close\r\n\r\n"
	keeping = "\r\n"
)

// headerLines returns the lines after Host as net/http writes them, without closing or keeping. ok is
// false if a header affects the connection, or is not plain ASCII.
func headerLines(header http.Header) (lines string, ok bool) {
	for name, values := range header {
		switch name {
		case "Connection", "Content-Length", "Expect", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
			return "", false
		}
		if !isToken(name) || len(values) == 0 {
			return "", false
		}
		for _, value := range values {
			if !isPrintable([]byte(value)) || strings.TrimSpace(value) != value {
				return "", false
			}
		}
	}
	req := &http.Request{URL: &url.URL{Scheme: "http", Host: "h"}, Header: header}
	var text strings.Builder
	if err := req.Write(&text); err != nil {
		return "", false
	}
	lines, ok = strings.CutPrefix(text.String(), "GET / HTTP/1.1\r\nHost: h\r\n")
	return strings.TrimSuffix(lines, "\r\n"), ok
}

// append appends the request for at to b. end is closing or keeping.
func (l *requestLines) append(b []byte, at network.Endpoint, end string) []byte {
	b = append(b, "GET "...)
	if !strings.HasPrefix(l.target, "/") {
		b = append(b, '/')
	}
	b = append(b, l.target...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(l.appendHost(b, at), "\r\n"...)
	return append(append(b, l.header...), end...)
}

// appendHost appends the host of the request for at.
func (l *requestLines) appendHost(b []byte, at network.Endpoint) []byte {
	switch {
	case l.host != "":
		return append(b, l.host...)
	case at.Unix != "":
		return append(b, hostOfSocket(at)...)
	case strings.Contains(at.Host, ":"):
		b = append(append(append(b, '['), at.Host...), "]:"...)
	default:
		b = append(append(b, at.Host...), ':')
	}
	return strconv.AppendInt(b, int64(at.Port), 10)
}

// isVisible reports whether text has only visible ASCII characters.
func isVisible(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
