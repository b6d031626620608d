// Package httpprobe has the http handler of the kubelet: a GET whose final status is from 200 to
// 299 is a Success, from 300 to 399 a Warning.
package httpprobe

import (
	"cmp"
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

	"github.com/daeace23/prober/handlers/builtin/internal/network"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// maxRedirects is how many redirects an attempt follows at most.
const maxRedirects = 10

// DefaultUserAgent is the user agent of the probes. Service meshes and autoscalers recognize them
// by its first word.
const DefaultUserAgent = network.UserAgent

// Config configures a [Handler]. The zero value is ready to use.
type Config struct {
	// DialContext makes every connection; nil means a [net.Dialer]. The network is
	// "tcp", or "unix" for a target that is a socket.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Compat turns fixes off: [probe.CompatBodyHangIsError], [probe.CompatLinger] and
	// [probe.CompatHostTrouble].
	Compat probe.Compat
	// UserAgent replaces [DefaultUserAgent] when not empty.
	UserAgent string
	// FollowNonLocalRedirects follows redirects to other hosts. The kubelet's probes do not.
	FollowNonLocalRedirects bool
	// ShowBody adds the beginning of the body of a failed probe to the outcome's details, as
	// {"body": "…"}: at most 256 bytes, escaped, without the config's secrets. It is never part
	// of the output, which becomes the text of an event: a body shows pod authors what the agent
	// can reach (kubernetes#99425).
	ShowBody bool
}

// Handler is the http handler. Each attempt makes its own connection. Certificates are not
// verified, and no proxy is used, even if the environment sets one. One Handler serves any number
// of probes.
type Handler struct {
	userAgent        string
	header           http.Header // of probes that have none of their own; read-only, as all fields
	bodyErrorIsError bool
	showBody         bool
	client           *http.Client // HTTP/1.1, and HTTP/2 where a TLS handshake agrees on it
	h2c              *http.Client // HTTP/2 with prior knowledge
}

var _ probe.Preparer = (*Handler)(nil)

// New returns the http handler.
func New(cfg Config) *Handler {
	redirect := localRedirect
	if cfg.FollowNonLocalRedirects {
		redirect = nil // the policy of net/http, which also stops after 10
	}
	var unencrypted http.Protocols
	unencrypted.SetUnencryptedHTTP2(true)
	unencrypted.SetHTTP2(true) // for redirects to https
	userAgent := cmp.Or(cfg.UserAgent, DefaultUserAgent)
	return &Handler{
		userAgent:        userAgent,
		header:           withDefaults(make(http.Header, 2), userAgent),
		bodyErrorIsError: cfg.Compat.Has(probe.CompatBodyHangIsError),
		showBody:         cfg.ShowBody,
		client:           &http.Client{Transport: newTransport(cfg, nil), CheckRedirect: redirect},
		h2c:              &http.Client{Transport: newTransport(cfg, &unencrypted), CheckRedirect: redirect},
	}
}

// newTransport returns a transport that makes a new connection for each request. The end of the
// request's context ends every phase.
func newTransport(cfg Config, protocols *http.Protocols) *http.Transport {
	dial := network.Dialer(cfg.DialContext, cfg.Compat)
	return &http.Transport{
		DialContext: func(ctx context.Context, nw, address string) (net.Conn, error) {
			a, ok := ctx.Value(attemptKey{}).(*attempt)
			if !ok {
				return dial(ctx, nw, address)
			}
			// Not with ctx: net/http would continue the dial after the attempt has ended.
			conn, err := a.progress.Dial(a.ctx, dial, nw, address, network.StepHTTP)
			if err != nil && a.ctx.Err() != nil {
				err = a.ctx.Err() // as net/http returns if it notices the end first
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

// Probe carries out an attempt at the request's own target.
func (h *Handler) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	b, err := h.Bind(Action{})
	if err != nil {
		return probe.Outcome{}, err
	}
	return b.Probe(ctx, req)
}

// bound is a Handler with an action; read-only.
type bound struct {
	place            network.Place
	client           *http.Client
	base             url.URL     // without the host
	header           http.Header // shared by all attempts: net/http only reads it
	bodyErrorIsError bool
	showBody         bool
}

func (h *bound) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	at, err := h.place.Resolve(&req)
	if err != nil {
		return probe.Outcome{}, err
	}
	u, err := withHost(h.base, at)
	if err != nil {
		return probe.Outcome{}, err
	}
	a := &attempt{bound: h, req: &req}
	a.progress.Unix = at.Unix
	ctx = context.WithValue(ctx, attemptKey{}, a)
	ctx, phases := network.NewPhases(ctx, req.Trace)
	if phases != nil || u.Scheme == "https" { // otherwise the dial tells enough, and costs less
		ctx = a.progress.Hooks(ctx)
	}
	a.ctx = withoutDeadline{ctx}
	out, err := a.get(ctx, u)
	phases.Emit(req.Trace)
	a.progress.Explain(ctx, req.Trace, &out)
	return out, err
}

// attempt is one attempt of a bound handler.
type attempt struct {
	*bound
	req      *probe.Request
	ctx      context.Context // of the attempt, for the dials of net/http
	progress network.Progress
}

// attemptKey is the context key of the *attempt.
type attemptKey struct{}

// withoutDeadline is a context that ends with another, but hides its deadline: a dialer that
// knows it ends a moment earlier, which would change the text of the attempt's error.
type withoutDeadline struct{ context.Context }

// Deadline implements [context.Context].
func (withoutDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }

func (h *attempt) get(ctx context.Context, u *url.URL) (probe.Outcome, error) {
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
	h.progress.Answered(res.StatusCode)
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
	out, failed := network.Verdict(ctx, err, output)
	if failed == nil && errors.Is(err, http.ErrSchemeMismatch) {
		out.Reason = probe.ReasonTLS
	}
	return out, failed
}

// bodyError returns the answer if the body of the response hung or was cut off: a Failure, or an
// error with [probe.CompatBodyHangIsError] (kubernetes#122591).
func (h *bound) bodyError(ctx context.Context, status int, err error) (probe.Outcome, error) {
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
	if _, ok := errors.AsType[textproto.ProtocolError](err); ok {
		text = "malformed trailer" // the error quotes the body; see judge
	}
	outcome, err := network.Verdict(ctx, err, fmt.Sprintf("HTTP probe got statuscode: %d, then failed to read the body: %s", status, text))
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
