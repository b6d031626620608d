package httpprobe

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/daeace23/prober/handlers/builtin/internal/network"
)

// requestLines are the lines of a plain request that all attempts of a probe send.
type requestLines struct {
	target string // as in the URL: "/path?query", "?query" or ""
	host   string // that a header sets; "" means the host of the URL
	header string // the lines after Host, without the last ones
	fields []byte // of HTTP/2, after the authority; nil without TLS, and if net/http has to send them
}

// linesOf returns the lines of a request for base with own, or with the header of h if own is nil.
// ok is false if net/http might refuse the request, or write it in another way.
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

// setFields sets the fields of HTTP/2.
func (l *requestLines) setFields(base *url.URL, header http.Header) {
	if base.Scheme == "https" && len(l.host) <= maxAuthority {
		l.fields = fieldsOf(l.target, header)
	}
}

// The end of a request. closing is what a transport adds whose connections serve one request.
const (
	closing = "Connection: close\r\n\r\n"
	keeping = "\r\n"
)

// headerLines returns the lines after Host as net/http writes them, without closing or keeping. ok
// is false if a header has a meaning for the connection, or is not plain ASCII.
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

// append appends the request for at to b, with closing or keeping as its end.
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

// isVisible reports whether text has only ASCII that can be seen.
func isVisible(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
