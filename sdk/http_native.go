//go:build !wasip1

package sdk

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/internal/abi"
)

// HTTP makes a request with the HTTP client of the host, and returns after the response header was
// received. A status such as 500 is not an error. URLs of hosts other than the target need a grant. HTTP
// takes a fraction of the size of net/http, for which there is sdk/sdkhttp.
func HTTP(ctx context.Context, r HTTPRequest) (*HTTPResponse, error) {
	x, err := hostOf(ctx).newExchange(&r)
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	if r.Timeout > 0 {
		ctx, x.cancel = context.WithTimeout(ctx, r.Timeout)
	}
	req, err := x.host.newRequest(ctx, &r)
	if err != nil {
		x.cancel()
		return nil, fmt.Errorf("http: %w", err)
	}
	client := http.Client{Transport: x, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) > min(r.Redirects, abi.MaxRedirects) {
			return http.ErrUseLastResponse
		}
		x.head.Redirects = len(via)
		return nil
	}}
	resp, err := client.Do(req)
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if err != nil {
		x.cancel()
		x.transport.CloseIdleConnections()
		return nil, fmt.Errorf("http: %w", err)
	}
	return x.response(resp, r.Decompress), nil
}

// newExchange returns an exchange for r after checking its options.
func (h Host) newExchange(r *HTTPRequest) (*exchange, error) {
	switch {
	case len(r.TLS.ALPN) > 0:
		return nil, errors.New("tls: alpn: the host chooses it")
	case strings.EqualFold(r.Method, http.MethodConnect):
		return nil, errors.New("the method CONNECT is not allowed")
	case r.Decompress != "" && r.Decompress != abi.Gzip && r.Decompress != abi.Deflate:
		return nil, fmt.Errorf("decompress %.40q: must be %s or %s", r.Decompress, abi.Gzip, abi.Deflate)
	}
	x := &exchange{host: h, options: r.TLS, cancel: func() {}, route: abi.Route{IPFamily: r.IPFamily, SourceAddress: r.SourceAddress}}
	if _, err := sourceOf(x.route, "tcp"); err != nil {
		return nil, err
	}
	x.options.ALPN = []string{"http/1.1"}
	if r.HTTP2 {
		x.options.ALPN = []string{"h2", "http/1.1"}
	}
	x.transport = http.Transport{
		DialContext: x.dial, DialTLSContext: x.dialTLS, ForceAttemptHTTP2: r.HTTP2, DisableKeepAlives: true, DisableCompression: true,
	}
	if r.Proxy == "" {
		return x, nil
	}
	proxy, err := url.Parse(r.Proxy)
	if err != nil || proxy.Scheme != "http" || proxy.Hostname() == "" {
		return nil, errors.New("proxy: must be http://HOST:PORT")
	}
	x.transport.Proxy, x.transport.ProxyConnectHeader = http.ProxyURL(proxy), http.Header{}
	for name, value := range r.ProxyHeader {
		x.transport.ProxyConnectHeader.Set(name, value)
	}
	x.transport.TLSClientConfig, err = h.tlsConfig(x.options) // net/http adds the name
	return x, err
}

// newRequest returns r for net/http. A URL without a host is for the target.
func (h Host) newRequest(ctx context.Context, r *HTTPRequest) (*http.Request, error) {
	u, err := url.Parse(r.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Opaque != "" {
		return nil, fmt.Errorf("%.200q: want http:// or https://HOST/path", r.URL)
	}
	if u.Host == "" {
		if h.Target.Unix != "" || h.Target.Host == "" {
			return nil, errors.New("the probe's target has no host")
		}
		u.Host = net.JoinHostPort(h.Target.Host, strconv.Itoa(h.Target.Port))
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, u.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	for name, value := range r.Header {
		req.Header.Set(name, value)
	}
	if name := req.Header.Get("Host"); name != "" {
		req.Host = name
	}
	return req, nil
}

// exchange is a request with its redirects. head is the head of the last hop.
type exchange struct {
	host      Host
	options   TLSOptions
	route     abi.Route
	transport http.Transport
	head      abi.HTTPHead
	cancel    context.CancelFunc // ends the timeout of the request
}

var _ http.RoundTripper = (*exchange)(nil)

// RoundTrip implements [http.RoundTripper].
func (x *exchange) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := time.Now()
	first := func() { x.head.FirstByte = time.Since(sent) }
	x.head.Peer, x.head.Connect, x.head.TLS, x.head.FirstByte = nil, 0, 0, 0
	var resp *http.Response
	var err error
	if x.host.RoundTrip != nil {
		x.head.Remote = req.URL.Host
		resp, err = x.host.RoundTrip(req)
		first()
	} else {
		trace := &httptrace.ClientTrace{GotFirstResponseByte: first}
		resp, err = x.transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	}
	if err != nil {
		return resp, err // net/http may still dial
	}
	sum := &x.head.Phases
	sum.Connect += x.head.Connect
	sum.TLS += x.head.TLS
	sum.Processing += max(0, x.head.FirstByte-x.head.Connect-x.head.TLS)
	return resp, nil
}

func (x *exchange) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	start := time.Now()
	raw, err := x.host.dialBy(ctx, x.route, network, addr)
	if err == nil {
		x.head.Connect, x.head.Remote = time.Since(start), raw.RemoteAddr().String()
	}
	return raw, err
}

func (x *exchange) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	config, err := x.host.tlsConfig(x.options)
	if err != nil {
		return nil, err
	}
	raw, err := x.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if host, _, err := net.SplitHostPort(addr); err == nil && config.ServerName == "" {
		config.ServerName = host
	}
	start := time.Now()
	secured, err := x.host.handshake(ctx, raw, config)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	x.head.TLS = time.Since(start)
	return secured, nil
}

// response returns resp, whose body is decoded if encoding is not "".
func (x *exchange) response(resp *http.Response, encoding string) *HTTPResponse {
	h := &x.head
	h.Status, h.Proto, h.URL, h.Length = resp.StatusCode, resp.Proto, resp.Request.URL.String(), resp.ContentLength
	h.Headers = make(map[string]string, len(resp.Header))
	for name, values := range resp.Header {
		name = strings.ToLower(name)
		h.Headers[name] = strings.Join(values, ", ")
		for _, value := range values {
			if len(values) > 1 {
				h.Repeated = append(h.Repeated, abi.HTTPHeader{Name: name, Value: value})
			}
		}
	}
	if resp.TLS != nil {
		h.Peer = abi.TLSInfoOf(resp.TLS, time.Now())
	}
	return newHTTPResponse(*h, &httpBody{Reader: decoded(encoding, resp.Body), from: resp.Body, exchange: x})
}

// httpBody is a response body whose Close closes the connection.
type httpBody struct {
	io.Reader
	from     io.Closer
	exchange *exchange
}

// Close implements [io.Closer].
func (b *httpBody) Close() error {
	err := b.from.Close()
	b.exchange.transport.CloseIdleConnections()
	b.exchange.cancel()
	return err
}

// decoded returns a reader that decodes body. encoding "" means none.
func decoded(encoding string, body io.Reader) io.Reader {
	if encoding == "" {
		return body
	}
	return &decoder{encoding: encoding, from: body}
}

// decoder decodes a compressed body.
type decoder struct {
	encoding string
	from, to io.Reader // to is nil before the first Read
}

// Read implements [io.Reader].
func (d *decoder) Read(p []byte) (n int, err error) {
	switch {
	case d.to != nil:
	case d.encoding == abi.Gzip:
		unzip, err := gzip.NewReader(d.from)
		if err != nil {
			return 0, fmt.Errorf("decompress: %w", err)
		}
		d.to = unzip
	default:
		d.to = flate.NewReader(d.from)
	}
	if n, err = d.to.Read(p); err != nil && err != io.EOF {
		err = fmt.Errorf("decompress: %w", err)
	}
	return n, err
}
