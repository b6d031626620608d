package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/regular"
)

const (
	maxFile     = 1 << 20 // bytes of a token or of authorities
	maxAnswer   = 64 << 10
	firstPause  = time.Second
	longestWait = 30 * time.Second
)

// client sends to one collector.
type client struct {
	spec      *config.OTLP
	token, ca string        // paths; "" for none
	replaced  chan struct{} // closed by replace

	mu        sync.Mutex
	transport *http.Transport
	authority []byte // that transport trusts
}

var errReplaced = errors.New("the configuration has changed")

func newClient(configFile string, o *config.OTLP) *client {
	c := &client{spec: o, replaced: make(chan struct{})}
	if o.BearerTokenFile != "" {
		c.token = config.Beside(configFile, o.BearerTokenFile)
	}
	if o.CA != "" {
		c.ca = config.Beside(configFile, o.CA)
	}
	return c
}

// replace ends requests that wait to be tried again. It is called once.
func (c *client) replace() {
	close(c.replaced)
	c.close()
}

// close ends idle connections.
func (c *client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
}

// current returns the transport, a new one if the file of the authorities has changed.
func (c *client) current() (*http.Transport, error) {
	var authority []byte
	if c.ca != "" {
		var err error
		if authority, err = regular.Read(c.ca, maxFile); err != nil {
			return nil, fmt.Errorf("otlp.ca: %w", err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.transport != nil && bytes.Equal(authority, c.authority) {
		return c.transport, nil
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.ca != "" {
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(authority) {
			return nil, fmt.Errorf("otlp.ca: %s has no certificate", c.ca)
		}
	}
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
	c.transport = &http.Transport{ // without a proxy, which would get the token
		TLSClientConfig: secure, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 2, IdleConnTimeout: 2 * time.Minute, TLSHandshakeTimeout: requestTimeout,
	}
	c.authority = authority
	return c.transport, nil
}

// refusal is the answer of a collector that does not take a request.
type refusal struct {
	status string
	retry  bool          // whether the same request may be taken later
	after  time.Duration // by the collector; 0 if it does not say
}

// Error implements error.
func (r *refusal) Error() string {
	return "HTTP status " + strconv.Quote(r.status[:min(len(r.status), 100)])
}

// send sends m to a path below the endpoint, until the collector has taken it, has refused it for good, or
// ctx ends. When ended is closed, it does not try again. answer gets the response. failed is called after each
// request that fails.
func (c *client) send(ctx context.Context, ended <-chan struct{}, path string, m, answer proto.Message, failed func(error)) error {
	body, err := pack(m)
	if err != nil {
		failed(err)
		return err
	}
	for pause := firstPause; ; pause = min(2*pause, longestWait) {
		err := c.post(ctx, path, body, answer)
		if err == nil {
			return nil
		}
		failed(err)
		wait := pause/2 + rand.N(pause)
		if r, ok := errors.AsType[*refusal](err); ok {
			if !r.retry {
				return err
			}
			wait = max(wait, min(r.after, longestWait))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ended:
			return err
		case <-c.replaced:
			return errReplaced
		case <-time.After(wait):
		}
	}
}

func pack(m proto.Message) ([]byte, error) {
	data, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	zip := gzip.NewWriter(&body)
	_, _ = zip.Write(data) // a buffer takes all
	_ = zip.Close()
	return body.Bytes(), nil
}

// post makes one request.
func (c *client) post(ctx context.Context, path string, body []byte, answer proto.Message) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, fmt.Errorf("no answer within %s", requestTimeout))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.spec.Endpoint+path, bytes.NewReader(body))
	if err != nil {
		return errors.New("the endpoint is not a valid URL") // it was checked
	}
	for name, value := range c.spec.Headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("Content-Encoding", "gzip")
	r.Header.Set("User-Agent", "prober")
	if c.token != "" {
		token, err := regular.Read(c.token, maxFile)
		if err != nil {
			return fmt.Errorf("otlp.bearerTokenFile: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	transport, err := c.current()
	if err != nil {
		return err
	}
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // another host could get the token
	res, err := (&http.Client{Transport: transport, CheckRedirect: noRedirect}).Do(r)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch res.StatusCode {
	case http.StatusOK:
		if err != nil || proto.Unmarshal(data, answer) != nil {
			proto.Reset(answer) // it was taken, whatever the answer says
		}
		return nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After")) // a date is taken as none
		return &refusal{status: res.Status, retry: true, after: time.Duration(min(max(seconds, 0), 3600)) * time.Second}
	default:
		return &refusal{status: res.Status}
	}
}
