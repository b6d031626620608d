package targets

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/outbound"
)

const maxRedirects = 5

// service is an HTTP service that lists targets. It is not safe for concurrent use.
type service struct {
	spec   config.HTTPTargets
	client *outbound.Client

	digest [sha256.Size]byte // digest of the last good response
	last   []found
}

func newService(spec config.HTTPTargets) *service {
	return &service{spec: spec, client: outbound.New(outbound.Config{
		BearerTokenFile: spec.BearerTokenFile, Redirects: maxRedirects, Timeout: spec.Timeout, MaxBody: maxList + 1,
	})}
}

// get queries the service.
func (s *service) get(ctx context.Context, _ bool) ([]found, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.spec.URL, nil)
	if err != nil {
		return nil, errors.New("the URL is not valid") // it was checked
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "prober")
	r.Header.Set("X-Prometheus-Refresh-Interval-Seconds", strconv.FormatFloat(s.spec.Refresh.Seconds(), 'f', -1, 64))
	res, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP status %s", strconv.Quote(clip.Bytes(res.Status, 100)))
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(text)
	if s.last != nil && digest == s.digest {
		return s.last, nil
	}
	list, err := parseAnswer(text)
	if err != nil {
		return nil, err
	}
	s.digest, s.last = digest, list
	return list, nil
}

// publicURL returns a URL without its query, which may have a secret.
func publicURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "" // it was checked
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}
