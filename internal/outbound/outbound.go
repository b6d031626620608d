// Package outbound sends prober's own HTTP requests: to receivers of notifications, collectors and services that list
// targets. Requests of probes and hooks follow the kubelet's rules instead; see package httpget.
//
// Read [Client.Do] first. tls.go reads certificates, also for connections that are not HTTP.
package outbound

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/internal/regular"
)

// Config configures a [Client].
type Config struct {
	// TLS files are read again for each request. A change closes idle connections. Nil trusts the system's authorities.
	TLS *TLS
	// BearerTokenFile is a file with a token, which is read again for each request; "" for none.
	BearerTokenFile string
	// Redirects is the maximum number of followed redirects, to the same scheme, host and port only. Other hosts could
	// receive a secret, or be in another network. Further redirects are errors; with 0, the redirect is the response.
	Redirects int
	// Timeout limits a request until its body was read; 0: only its context does.
	Timeout time.Duration
	// MaxBody is the maximum number of bytes read of a body; 0 for no limit.
	MaxBody int64
	// DialContext makes connections; nil means a [net.Dialer].
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// KeepAlive keeps connections for the next request, until [Client.Close].
	KeepAlive bool
	// DisableCompression does not request compressed bodies.
	DisableCompression bool
}

// Client sends requests. It is safe for concurrent use.
type Client struct {
	cfg Config

	mu        sync.Mutex
	transport *http.Transport
	secure    *tls.Config // configuration of transport
}

// New returns a client. It sends no request and reads no file.
func New(cfg Config) *Client {
	cfg.TLS = cmp.Or(cfg.TLS, new(TLS))
	return &Client{cfg: cfg}
}

// Transport returns a transport for requests with secrets. It uses no proxy, which would receive the secrets.
// Connections are closed after a request.
func Transport(secure *tls.Config) *http.Transport {
	return &http.Transport{DisableKeepAlives: true, TLSClientConfig: secure}
}

// Close closes idle connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
}

// current returns the transport. It makes a new one if a file has changed.
func (c *Client) current() (*http.Transport, error) {
	secure, err := c.cfg.TLS.Config()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.secure == secure {
		return c.transport, nil
	}
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
	t := Transport(secure)
	t.DialContext, t.DisableKeepAlives, t.DisableCompression = c.cfg.DialContext, !c.cfg.KeepAlive, c.cfg.DisableCompression
	t.ForceAttemptHTTP2, t.MaxResponseHeaderBytes = true, 64<<10
	t.MaxIdleConnsPerHost, t.IdleConnTimeout, t.TLSHandshakeTimeout = 2, 2*time.Minute, c.cfg.Timeout
	c.secure, c.transport = secure, t
	return t, nil
}

// Do sends r, and returns the response, whose body must be closed. Do and the body return the errors of [Failure].
// An error of a file is a [*FileError].
func (c *Client) Do(r *http.Request) (*http.Response, error) {
	ctx, cancel := r.Context(), context.CancelFunc(func() {})
	if c.cfg.Timeout > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, c.cfg.Timeout, fmt.Errorf("no answer within %s", c.cfg.Timeout))
	}
	res, err := c.send(r.WithContext(ctx))
	if err != nil {
		defer cancel()
		return nil, Failure(ctx, err)
	}
	b := &body{ReadCloser: res.Body, from: res.Body, ctx: ctx, end: cancel}
	if c.cfg.MaxBody > 0 {
		b.from = io.LimitReader(res.Body, c.cfg.MaxBody)
	}
	res.Body = b
	return res, nil
}

func (c *Client) send(r *http.Request) (*http.Response, error) {
	transport, err := c.current()
	if err != nil {
		return nil, err
	}
	if c.cfg.BearerTokenFile != "" {
		token, err := regular.Read(c.cfg.BearerTokenFile, maxFile)
		if err != nil {
			return nil, &FileError{"bearerTokenFile", err}
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	return (&http.Client{Transport: transport, CheckRedirect: c.checkRedirect}).Do(r)
}

func (c *Client) checkRedirect(r *http.Request, via []*http.Request) error {
	first := via[0].URL
	switch {
	case c.cfg.Redirects == 0:
		return http.ErrUseLastResponse
	case len(via) > c.cfg.Redirects:
		return fmt.Errorf("more than %d redirects", c.cfg.Redirects)
	case r.URL.Host != first.Host || r.URL.Scheme != first.Scheme:
		return fmt.Errorf("it redirects to another host, %.200q, which is not followed", r.URL.Scheme+"://"+r.URL.Host)
	}
	return nil
}

// body is the body of a response.
type body struct {
	io.ReadCloser
	from io.Reader // ReadCloser, limited to MaxBody
	ctx  context.Context
	end  context.CancelFunc
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if err != nil && err != io.EOF {
		err = Failure(b.ctx, err)
	}
	return n, err
}

// Close implements [io.Closer].
func (b *body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// Failure returns the error of a request. If ctx has ended, it returns the cause, which HTTP/2 does not. Otherwise it
// returns err without the URL, which may have a secret, and without the local port. So the same failure always has
// the same text.
func Failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*net.OpError](err); ok { // the local port differs for each attempt
		same := *e
		same.Source = nil
		return &same
	}
	return err
}

// RetryAfter returns the wait requested by the Retry-After header of a response, which has seconds or a date. It is
// at most most, and 0 without a valid header.
func RetryAfter(res *http.Response, most time.Duration) time.Duration {
	text, wait := res.Header.Get("Retry-After"), time.Duration(0)
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = time.Until(at)
	}
	return min(max(wait, 0), most)
}
