package sdk

import (
	"io"
	"time"

	"github.com/daeace23/prober/internal/abi"
)

// HTTPRequest is what [HTTP] sends. Only URL is required.
type HTTPRequest struct {
	Method    string // "" is GET
	URL       string // without a host, as in http:///healthz, it leads to the probe's target
	Header    map[string]string
	Body      []byte
	Redirects int        // how many are followed, 3 at most; each is authorised again
	TLS       TLSOptions // without ALPN, which the host chooses
}

// HTTPResponse is what came back. Close its Body.
type HTTPResponse struct {
	Status    int
	Proto     string            // "HTTP/1.1"
	URL       string            // of the last hop
	Redirects int               // that were followed
	Remote    string            // address of who answered
	Header    map[string]string // names in lower case; values of one name are joined by ", "
	Timings   HTTPTimings
	TLS       *TLSInfo // nil without TLS
	Body      io.ReadCloser
}

// HTTPTimings is how long the phases of the last hop took.
type HTTPTimings struct{ DNS, Connect, TLS, FirstByte time.Duration }

// TLSInfo is what a handshake agreed on, and whom it showed: Version ("TLS 1.3"), Cipher,
// ALPN and ServerName, and Certificates, the server's own first.
type TLSInfo = abi.TLSInfo

func newHTTPResponse(h abi.HTTPHead, body io.ReadCloser) *HTTPResponse {
	return &HTTPResponse{
		Status: h.Status, Proto: h.Proto, URL: h.URL, Redirects: h.Redirects, Remote: h.Remote, Header: h.Headers,
		Timings: HTTPTimings{DNS: h.DNS, Connect: h.Connect, TLS: h.TLS, FirstByte: h.FirstByte},
		TLS:     h.Peer,
		Body:    body,
	}
}
