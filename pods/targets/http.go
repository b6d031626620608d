package targets

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/regular"
)

const (
	maxToken     = 64 << 10 // bytes of the file of a token
	maxRedirects = 5
)

// service is an HTTP service that lists targets. It is for one goroutine at a time.
type service struct {
	spec   config.HTTPTargets
	client http.Client

	digest [sha256.Size]byte // of the last good answer
	last   []found
}

func newService(spec config.HTTPTargets) *service {
	return &service{spec: spec, client: http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true}, // without a proxy, which would get the token
		CheckRedirect: checkRedirect,
	}}
}

// checkRedirect follows redirects within a host only: the others could get the token, or lead into
// another network.
func checkRedirect(r *http.Request, via []*http.Request) error {
	first := via[0].URL
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case r.URL.Host != first.Host || r.URL.Scheme != first.Scheme:
		return fmt.Errorf("it redirects to another host, %.200q, which is not followed", r.URL.Scheme+"://"+r.URL.Host)
	}
	return nil
}

// get asks the service.
func (s *service) get(ctx context.Context, _ bool) ([]found, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.spec.Timeout, fmt.Errorf("no answer within %s", s.spec.Timeout))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.spec.URL, nil)
	if err != nil {
		return nil, errors.New("the URL is not valid") // it was checked
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "prober")
	r.Header.Set("X-Prometheus-Refresh-Interval-Seconds", strconv.FormatFloat(s.spec.Refresh.Seconds(), 'f', -1, 64))
	if s.spec.BearerTokenFile != "" {
		token, err := regular.Read(s.spec.BearerTokenFile, maxToken)
		if err != nil {
			return nil, fmt.Errorf("bearerTokenFile: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	res, err := s.client.Do(r)
	if err != nil {
		return nil, s.failure(ctx, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP status %s", clipStatus(res.Status))
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxList+1))
	if err != nil {
		return nil, s.failure(ctx, err)
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

// failure returns the error of a request without the URL, whose query may have a secret, and the same for
// the same failure.
func (s *service) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*net.OpError](err); ok { // each attempt has another port of this host
		same := *e
		same.Source = nil
		return &same
	}
	return err
}

func clipStatus(text string) string { return strconv.Quote(text[:min(len(text), 100)]) }

// publicURL returns a URL without its query, which may have a secret.
func publicURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "" // it was checked
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}
