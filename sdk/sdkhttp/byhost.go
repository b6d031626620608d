package sdkhttp

import (
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/daeace23/prober/sdk"
)

// ByHost is a transport that makes requests with [sdk.HTTP]. It is for libraries that need an
// http.RoundTripper if the operator grants URLs rather than connections. http.Client follows redirects,
// each of which must be granted. Several values of a header of a request are joined by ", ".
//
// The other fields are as in an [sdk.HTTPRequest].
type ByHost struct {
	TLS                     sdk.TLSOptions // ALPN must be empty
	HTTP2                   bool
	IPFamily, SourceAddress string
	Proxy                   string
	ProxyHeader             map[string]string
}

var _ http.RoundTripper = ByHost{}

// RoundTrip implements [http.RoundTripper].
func (b ByHost) RoundTrip(req *http.Request) (*http.Response, error) {
	r := sdk.HTTPRequest{
		Method: req.Method, URL: req.URL.String(), Header: make(map[string]string), TLS: b.TLS, HTTP2: b.HTTP2,
		IPFamily: b.IPFamily, SourceAddress: b.SourceAddress, Proxy: b.Proxy, ProxyHeader: b.ProxyHeader,
	}
	for name, values := range req.Header {
		r.Header[name] = strings.Join(values, ", ")
	}
	if req.Host != "" && req.Host != req.URL.Host {
		r.Header["Host"] = req.Host
	}
	if req.Body != nil {
		defer req.Body.Close()
		var err error
		if r.Body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
	}
	got, err := sdk.HTTP(req.Context(), r)
	if err != nil {
		return nil, err
	}
	return response(req, got), nil
}

// answer is the body of a response, with the host's response.
type answer struct {
	io.ReadCloser
	response *sdk.HTTPResponse
}

// Details returns the host's response to a request of [ByHost], with timings and the certificates of the
// peer. It returns nil for any other response.
func Details(resp *http.Response) *sdk.HTTPResponse {
	a, ok := resp.Body.(*answer)
	if !ok {
		return nil
	}
	return a.response
}

func response(req *http.Request, got *sdk.HTTPResponse) *http.Response {
	resp := &http.Response{
		Status:        strconv.Itoa(got.Status) + " " + http.StatusText(got.Status),
		StatusCode:    got.Status,
		Proto:         got.Proto,
		Header:        make(http.Header, len(got.Header)),
		Body:          &answer{got.Body, got},
		ContentLength: -1,
		Request:       req,
	}
	resp.ProtoMajor, resp.ProtoMinor, _ = http.ParseHTTPVersion(got.Proto)
	for name := range got.Header {
		resp.Header[textproto.CanonicalMIMEHeaderKey(name)] = got.Values(name)
	}
	if n, err := strconv.ParseInt(got.Header["content-length"], 10, 64); err == nil && n >= 0 {
		resp.ContentLength = n
	}
	return resp
}
