//go:build !wasip1

package sdk

import (
	"bytes"
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
	req, err := hostOf(ctx).newRequest(ctx, &r)
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	x := &exchange{host: hostOf(ctx), options: r.TLS}
	x.transport = http.Transport{
		DialContext: x.dial, DialTLSContext: x.dialTLS, DisableKeepAlives: true, DisableCompression: true,
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
		x.transport.CloseIdleConnections()
		return nil, fmt.Errorf("http: %w", err)
	}
	return x.response(resp), nil
}

// newRequest returns r for net/http. A URL without a host is for the target.
func (h Host) newRequest(ctx context.Context, r *HTTPRequest) (*http.Request, error) {
	u, err := url.Parse(r.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Opaque != "" {
		return nil, fmt.Errorf("%.200q: want http:// or https://HOST/path", r.URL)
	}
	if len(r.TLS.ALPN) > 0 {
		return nil, errors.New("tls: alpn: the host chooses it")
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
	transport http.Transport
	head      abi.HTTPHead
}

var _ http.RoundTripper = (*exchange)(nil)

// RoundTrip implements [http.RoundTripper].
func (x *exchange) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := time.Now()
	first := func() { x.head.FirstByte = time.Since(sent) }
	x.head.Peer, x.head.TLS = nil, 0
	if x.host.RoundTrip != nil {
		x.head.Remote = req.URL.Host
		defer first()
		return x.host.RoundTrip(req)
	}
	trace := &httptrace.ClientTrace{GotFirstResponseByte: first}
	return x.transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
}

func (x *exchange) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	start := time.Now()
	raw, err := x.host.dial(ctx, network, addr)
	if err == nil {
		x.head.Connect, x.head.Remote = time.Since(start), raw.RemoteAddr().String()
	}
	return raw, err
}

func (x *exchange) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	config, err := x.options.config()
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

func (x *exchange) response(resp *http.Response) *HTTPResponse {
	h := &x.head
	h.Status, h.Proto, h.URL = resp.StatusCode, resp.Proto, resp.Request.URL.String()
	h.Headers = make(map[string]string, len(resp.Header))
	for name, values := range resp.Header {
		h.Headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	if resp.TLS != nil {
		h.Peer = abi.TLSInfoOf(resp.TLS, time.Now())
	}
	return newHTTPResponse(*h, &httpBody{resp.Body, &x.transport})
}

// httpBody is a response body whose Close closes the connection.
type httpBody struct {
	io.ReadCloser
	transport *http.Transport
}

// Close implements [io.Closer].
func (b *httpBody) Close() error {
	err := b.ReadCloser.Close()
	b.transport.CloseIdleConnections()
	return err
}
