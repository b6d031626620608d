package nodes

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/daeace23/prober/agent/access"
)

// maxBytes is the limit of all responses of one agent to a command.
const maxBytes = 16 << 20

var errTooLong = errors.New("its responses are longer than 16 MiB")

// proxied sends requests to one agent through the API server.
type proxied struct {
	next http.RoundTripper
	left int64 // bytes of responses; atomic
}

// RoundTrip implements [http.RoundTripper]. The header Authorization belongs to the API server, which must not get the
// agent's token. An agent must not redirect the credentials of the API server.
func (p *proxied) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		r.Header.Del("Authorization")
		r.Header.Set(access.TokenHeader, token)
	}
	res, err := p.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		res.Body.Close()
		return nil, errors.New("its response is a redirect")
	}
	res.Body = &bounded{res.Body, &p.left}
	return res, nil
}

// bounded is a body that fails when the bytes that are left have been read.
type bounded struct {
	io.ReadCloser
	left *int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if atomic.AddInt64(b.left, -int64(n)) < 0 {
		return 0, errTooLong
	}
	return n, err
}
