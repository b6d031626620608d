package builtin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// maxRedirects is how many redirects an attempt follows at most.
const maxRedirects = 10

// HTTP is the http handler: a GET whose final status is from 200 to 299 is a
// Success, from 300 to 399 a Warning. Certificates are not verified, and no proxy is
// used, even if the environment sets one.
type HTTP struct {
	userAgent        string
	bodyErrorIsError bool
	showBody         bool
	client           *http.Client // HTTP/1.1, and HTTP/2 where a TLS handshake agrees on it
	h2c              *http.Client // HTTP/2 with prior knowledge
}

var _ probe.Preparer = (*HTTP)(nil)

// NewHTTP returns the http handler.
func NewHTTP(cfg Config) *HTTP {
	redirect := localRedirect
	if cfg.FollowNonLocalRedirects {
		redirect = nil // the policy of net/http, which also stops after 10
	}
	var unencrypted http.Protocols
	unencrypted.SetUnencryptedHTTP2(true)
	unencrypted.SetHTTP2(true) // for redirects to https
	return &HTTP{
		userAgent:        cfg.userAgent(),
		bodyErrorIsError: cfg.Compat.Has(probe.CompatBodyHangIsError),
		showBody:         cfg.ShowBody,
		client:           &http.Client{Transport: newTransport(cfg, nil), CheckRedirect: redirect},
		h2c:              &http.Client{Transport: newTransport(cfg, &unencrypted), CheckRedirect: redirect},
	}
}

// newTransport returns a transport that makes a new connection for each request. The end of the
// request's context ends every phase.
func newTransport(cfg Config, protocols *http.Protocols) *http.Transport {
	dial := cfg.dialer()
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			p, ok := ctx.Value(progressKey{}).(*progress)
			if !ok {
				return dial(ctx, network, address)
			}
			// Not with ctx: net/http would continue the dial after the attempt has ended.
			conn, err := p.dial(p.attempt, dial, network, address, stepHTTP)
			if err != nil && p.attempt.Err() != nil {
				err = p.attempt.Err() // as net/http returns if it notices the end first
			}
			return conn, err
		},
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true},
		TLSHandshakeTimeout: 10 * time.Second,
		DisableKeepAlives:   true,
		DisableCompression:  true,
		ForceAttemptHTTP2:   true, // needed with a DialContext and TLSClientConfig
		Protocols:           protocols,
	}
}

// localRedirect follows redirects that stay on the host of the first request, since the answer of
// another host says nothing about the target. The port may change.
func localRedirect(req *http.Request, via []*http.Request) error {
	if req.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= maxRedirects {
		return &probe.Error{Reason: probe.ReasonHTTPStatus, Err: fmt.Errorf("stopped after %d redirects", maxRedirects)}
	}
	return nil
}

// Prepare binds the handler to config, a v1.HTTPGetAction.
func (h *HTTP) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	var action v1.HTTPGetAction
	if err := decode(config, &action); err != nil {
		return nil, err
	}
	u, err := baseURL(string(action.Scheme), action.Path)
	if err != nil {
		return nil, err
	}
	h2c, err := wantsH2C(&action)
	if err != nil {
		return nil, err
	}
	b := &boundHTTP{
		place:            place{action.Host, action.Port, target},
		client:           h.client,
		base:             *u,
		header:           header(action.HTTPHeaders, h.userAgent),
		bodyErrorIsError: h.bodyErrorIsError,
		showBody:         h.showBody,
	}
	if h2c {
		b.client = h.h2c
	}
	return b, nil
}

// Probe carries out an attempt at the request's own target.
func (h *HTTP) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	return probeUnbound(ctx, h, req)
}

// boundHTTP is an HTTP with a config; read-only.
type boundHTTP struct {
	place            place
	client           *http.Client
	base             url.URL     // without the host
	header           http.Header // shared by all attempts: net/http only reads it
	bodyErrorIsError bool
	showBody         bool
}

func (h *boundHTTP) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	at, err := h.place.resolve(&req)
	if err != nil {
		return probe.Outcome{}, err
	}
	u, err := withHost(h.base, at)
	if err != nil {
		return probe.Outcome{}, err
	}
	a := &httpAttempt{boundHTTP: h, req: &req, progress: progress{unix: at.unix}}
	ctx = context.WithValue(ctx, progressKey{}, &a.progress)
	ctx, phases := newPhases(ctx, req.Trace)
	if phases != nil || u.Scheme == "https" { // otherwise the dial tells enough, and costs less
		ctx = a.progress.hooks(ctx)
	}
	a.progress.attempt = withoutDeadline{ctx}
	out, err := a.get(ctx, u)
	phases.emit(req.Trace)
	a.progress.explain(ctx, req.Trace, &out)
	return out, err
}

// httpAttempt is one attempt of a boundHTTP.
type httpAttempt struct {
	*boundHTTP
	req      *probe.Request
	progress progress
}

func (h *httpAttempt) get(ctx context.Context, u *url.URL) (probe.Outcome, error) {
	req := (&http.Request{
		Method: http.MethodGet,
		URL:    u,
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h.header,
		Host:   h.header.Get("Host"),
	}).WithContext(ctx)
	res, err := h.client.Do(req)
	if err != nil {
		return requestError(ctx, err)
	}
	defer res.Body.Close()
	h.progress.answered(res.StatusCode)
	// Reading stops at the limit: the rest of a longer body does not matter.
	body, err := io.ReadAll(io.LimitReader(res.Body, probe.MaxOutput))
	var out probe.Outcome
	if err != nil {
		out, err = h.bodyError(ctx, res.StatusCode, err)
	} else {
		out = judge(h.req, res.StatusCode, body)
	}
	if h.showBody && out.Result == probe.Failure {
		// Secrets are removed before the cut, which may leave a part of one.
		text := h.req.Redacted(string(body))
		out.Details = explain.Details{Body: explain.Excerpt(text, explain.MaxBody)}.String()
	}
	return out, err
}

// requestError returns the answer of an attempt without a response.
func requestError(ctx context.Context, err error) (probe.Outcome, error) {
	output := err.Error()
	if timedOut(ctx, err) {
		// The text of net/http for a timeout of the client, which the kubelet uses.
		output += " (Client.Timeout exceeded while awaiting headers)"
	}
	return verdict(ctx, err, output)
}

// bodyError returns the answer if the body of the response hung or was cut off: a Failure, or an
// error with [probe.CompatBodyHangIsError] (kubernetes#122591).
func (h *boundHTTP) bodyError(ctx context.Context, status int, err error) (probe.Outcome, error) {
	text, reason := err.Error(), probe.ReasonBody
	if timedOut(ctx, err) {
		text += " (Client.Timeout or context cancellation while reading body)" // as in requestError
		reason = probe.ReasonDeadline
	}
	if h.bodyErrorIsError {
		// The error does not match a deadline, which would be a Failure. The result beside it
		// is Failure, not Unknown, as in the kubelet's event.
		return probe.Outcome{Result: probe.Failure}, &probe.Error{Reason: probe.ReasonBody, Err: errors.New(text)}
	}
	if isType[textproto.ProtocolError](err) {
		text = "malformed trailer" // the error quotes the body; see judge
	}
	outcome, err := verdict(ctx, err, fmt.Sprintf("HTTP probe got statuscode: %d, then failed to read the body: %s", status, text))
	if err == nil {
		outcome.Reason = reason
	}
	return outcome, err
}

// timedOut reports whether the deadline of the attempt has caused err.
func timedOut(ctx context.Context, err error) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// judge returns the outcome of a response. It omits the body of a failure, which would show pod
// authors what the agent can reach (kubernetes#99425). See [Config.ShowBody].
func judge(req *probe.Request, status int, body []byte) probe.Outcome {
	switch {
	case status >= 200 && status < 300:
		return probe.Outcome{Result: probe.Success, Output: string(body)}
	case status >= 300 && status < 400:
		return probe.Outcome{
			Result: probe.Warning,
			Reason: probe.ReasonHTTPStatus,
			Output: probe.Cut("Probe terminated redirects, Response body: " + req.Redacted(string(body))),
		}
	default:
		return probe.Outcome{
			Result: probe.Failure,
			Reason: probe.ReasonHTTPStatus,
			Output: fmt.Sprintf("HTTP probe failed with statuscode: %d", status),
		}
	}
}
