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
	Redirects int        // maximum number of redirects to follow: 0 by default, 10 at most; each must be granted
	TLS       TLSOptions // ALPN must be empty: the host chooses it

	// Timeout limits the exchange with its body. 0 means until the context ends.
	Timeout time.Duration
	// HTTP2 offers HTTP/2 over TLS.
	HTTP2 bool
	// Decompress is the encoding of the body that the host decodes: "gzip" or "deflate". Set the header
	// Accept-Encoding too.
	Decompress string
	// IPFamily is "4", "6", "4,6" or "6,4"; the last two prefer the first family.
	IPFamily string
	// SourceAddress is the source address, one of the host's addresses.
	SourceAddress string
	// Proxy is "http://HOST:PORT", perhaps with a user and password. It must be granted too.
	Proxy string
	// ProxyHeader has the headers of the CONNECT request to the proxy.
	ProxyHeader map[string]string
}

// HTTPResponse is the response to an [HTTPRequest]. The caller must close its Body.
type HTTPResponse struct {
	Status    int
	Proto     string            // "HTTP/1.1"
	URL       string            // URL of the last hop
	Redirects int               // number of redirects followed
	Remote    string            // address of the server
	Header    map[string]string // names in lower case, values of one name joined by ", "; see Values
	Timings   HTTPTimings       // of the last hop
	Phases    HTTPPhases        // of all hops
	Length    int64             // bytes of the body before decompression; -1 if the header does not say
	TLS       *TLSInfo          // nil without TLS
	Body      io.ReadCloser

	repeated []abi.HTTPHeader
}

// Values returns the lines of a header, nil if there are none. name is in lower case. Use it for headers
// whose lines cannot be joined, such as set-cookie.
func (r *HTTPResponse) Values(name string) []string {
	var values []string
	for _, line := range r.repeated {
		if line.Name == name {
			values = append(values, line.Value)
		}
	}
	if value, ok := r.Header[name]; ok && values == nil {
		values = []string{value}
	}
	return values
}

// HTTPPhases has the durations of the phases of an exchange, summed over all hops: Resolve, Connect, TLS,
// and Processing, from the connection to the first byte of the response. A native program does not know
// Resolve.
type HTTPPhases = abi.HTTPPhases

// HTTPTimings has the durations of the phases of the last hop.
type HTTPTimings struct{ DNS, Connect, TLS, FirstByte time.Duration }

// TLSInfo describes a TLS handshake: its Version ("TLS 1.3"), Cipher, ALPN and ServerName, and the
// Certificates of the server, the leaf first.
type TLSInfo = abi.TLSInfo

func newHTTPResponse(h abi.HTTPHead, body io.ReadCloser) *HTTPResponse {
	return &HTTPResponse{
		Status: h.Status, Proto: h.Proto, URL: h.URL, Redirects: h.Redirects, Remote: h.Remote, Header: h.Headers,
		Timings: HTTPTimings{DNS: h.DNS, Connect: h.Connect, TLS: h.TLS, FirstByte: h.FirstByte},
		Phases:  h.Phases, Length: h.Length,
		TLS:  h.Peer,
		Body: body, repeated: h.Repeated,
	}
}
