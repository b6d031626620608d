package sdk

import (
	"io"
	"time"

	"github.com/daeace23/prober/internal/abi"
)

// HTTPRequest is a request of [HTTP]. Only URL is required.
type HTTPRequest struct {
	Method    string // "" is GET
	URL       string // a URL without a host, such as http:///healthz, is for the target
	Header    map[string]string
	Body      []byte
	Redirects int        // maximum number of redirects to follow, 3 by default and 10 at most; each must be granted
	TLS       TLSOptions // ALPN must be empty: the host chooses it
}

// HTTPResponse is the response to an [HTTPRequest]. The caller must close its Body.
type HTTPResponse struct {
	Status    int
	Proto     string            // "HTTP/1.1"
	URL       string            // URL of the last hop
	Redirects int               // number of redirects followed
	Remote    string            // address of the server
	Header    map[string]string // names in lower case, values of one name joined by ", "
	Timings   HTTPTimings
	TLS       *TLSInfo // nil without TLS
	Body      io.ReadCloser
}

// HTTPTimings has the durations of the phases of the last hop.
type HTTPTimings struct{ DNS, Connect, TLS, FirstByte time.Duration }

// TLSInfo describes a TLS handshake: its Version ("TLS 1.3"), Cipher, ALPN and ServerName, and the
// Certificates of the server, the leaf first.
type TLSInfo = abi.TLSInfo

func newHTTPResponse(h abi.HTTPHead, body io.ReadCloser) *HTTPResponse {
	return &HTTPResponse{
		Status: h.Status, Proto: h.Proto, URL: h.URL, Redirects: h.Redirects, Remote: h.Remote, Header: h.Headers,
		Timings: HTTPTimings{DNS: h.DNS, Connect: h.Connect, TLS: h.TLS, FirstByte: h.FirstByte},
		TLS:     h.Peer,
		Body:    body,
	}
}
