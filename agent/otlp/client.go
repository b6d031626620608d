package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/outbound"
	"github.com/daeace23/prober/internal/pace"
)

const (
	maxAnswer   = 64 << 10
	firstPause  = time.Second
	longestWait = 30 * time.Second
)

// client sends requests to one collector.
type client struct {
	*outbound.Client
	spec     *config.OTLP
	replaced chan struct{} // closed by replace
}

var errReplaced = errors.New("the configuration has changed")

func newClient(configFile string, o *config.OTLP) *client {
	cfg := outbound.Config{Timeout: requestTimeout, MaxBody: maxAnswer, KeepAlive: true}
	if o.BearerTokenFile != "" {
		cfg.BearerTokenFile = config.Beside(configFile, o.BearerTokenFile)
	}
	if o.CA != "" {
		cfg.TLS = &outbound.TLS{CA: config.Beside(configFile, o.CA)}
	}
	return &client{Client: outbound.New(cfg), spec: o, replaced: make(chan struct{})}
}

// replace aborts requests that wait for a retry. It must be called once.
func (c *client) replace() {
	close(c.replaced)
	c.Close()
}

// refusal is the response of a collector that does not accept a request.
type refusal struct {
	status string
	retry  bool          // whether the request may be retried
	after  time.Duration // pause that the collector asks for; 0 if it asks for none
}

// Error implements error.
func (r *refusal) Error() string {
	return "HTTP status " + strconv.Quote(clip.Bytes(r.status, 100))
}

// send sends m to a path below the endpoint, and retries until the collector accepts it or refuses it for
// good, or until ctx ends. Once ended is closed, it does not retry. The response is stored in answer. failed
// is called after each failed request.
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
		wait := pace.Jitter(pause/2, pause+pause/2)
		if r, ok := errors.AsType[*refusal](err); ok {
			if !r.retry {
				return err
			}
			wait = max(wait, r.after)
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
	_, _ = zip.Write(data) // a buffer returns no error
	_ = zip.Close()
	return body.Bytes(), nil
}

// post makes one request.
func (c *client) post(ctx context.Context, path string, body []byte, answer proto.Message) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.spec.Endpoint+path, bytes.NewReader(body))
	if err != nil {
		return errors.New("the endpoint is not a valid URL") // unexpected: the config was checked
	}
	for name, value := range c.spec.Headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("Content-Encoding", "gzip")
	r.Header.Set("User-Agent", "prober")
	res, err := c.Do(r)
	if e, ok := errors.AsType[*outbound.FileError](err); ok {
		return fmt.Errorf("otlp.%w", e)
	}
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	switch res.StatusCode {
	case http.StatusOK:
		if err != nil || proto.Unmarshal(data, answer) != nil {
			proto.Reset(answer) // the request was accepted, whatever the response has
		}
		return nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return &refusal{status: res.Status, retry: true, after: outbound.RetryAfter(res, longestWait)}
	default:
		return &refusal{status: res.Status}
	}
}
