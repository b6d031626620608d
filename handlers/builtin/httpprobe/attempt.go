package httpprobe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"time"

	"github.com/daeace23/prober/handlers/builtin/internal/network"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/httpget"
	"github.com/daeace23/prober/probe"
)

// bound is a Handler with an action; read-only.
type bound struct {
	*Handler
	place network.Place
	lines requestLines // set if plain
	base  *url.URL     // without the host; nil if plain, because lines have it
	own   http.Header  // the action's header with defaults; nil means Handler.header
	https bool
	http2 bool // HTTP/2 without TLS
	plain bool // the lean path supports the request
}

var _ probe.Describer = (*bound)(nil)

// Describe implements [probe.Describer]. The method of every attempt is GET.
func (h *bound) Describe(_ string, req *probe.Request) string {
	address := h.place.Describe(req)
	base, err := h.baseURL()
	if err != nil {
		return "GET " + address
	}
	base.Host = ""
	return "GET " + httpget.Describe(base, address)
}

func (h *bound) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	return h.probe(ctx, req, nil)
}

// probe makes an attempt. It uses the connection of keeper if there is one.
func (h *bound) probe(ctx context.Context, req probe.Request, keeper *reusing) (probe.Outcome, error) {
	at, err := h.connector.Resolve(h.place, &req)
	if err != nil {
		return probe.Outcome{}, err
	}
	if h.plain && at.Host != "" && isPlainHost(at.Host) && ctx.Err() == nil && (!h.https || at.Unix == "" && isIP(at.Host)) &&
		httptrace.ContextClientTrace(ctx) == nil { // only net/http calls its hooks
		return h.lean(ctx, req, at, keeper)
	}
	u, err := h.url(at)
	if err != nil {
		return probe.Outcome{}, err
	}
	return h.full(ctx, req, at, u)
}

// full makes an attempt with net/http.
func (h *bound) full(ctx context.Context, req probe.Request, at network.Endpoint, u *url.URL) (probe.Outcome, error) {
	a := &attempt{bound: h, req: &req}
	a.progress.Unix, a.progress.Traced = at.Unix, req.Trace != nil
	ctx = context.WithValue(ctx, attemptKey{}, a)
	if a.hooked = req.Trace != nil || h.https; a.hooked { // otherwise the dial suffices, and costs less
		ctx = a.progress.Hooks(ctx)
	}
	a.ctx = withoutDeadline{ctx}
	lasts, end := context.WithCancel(ctx)
	defer end()
	a.lasts = lasts
	client := h.client
	if h.http2 {
		client = h.h2c
	}
	out, err := a.get(ctx, h.isolate(ctx, client), a.newRequest(ctx, u))
	a.trace(ctx, &out, err)
	return out, err
}

// trace emits the phases of an attempt that has ended with out and err, explains a timeout, and reports the
// certificates.
func (a *attempt) trace(ctx context.Context, out *probe.Outcome, err error) {
	a.progress.Report(ctx)
	a.progress.Emit(a.req.Trace, a.req.Debug || err != nil || out.Result != probe.Success)
	a.progress.Explain(ctx, a.req.Trace, out)
}

// url returns the URL of an attempt at an endpoint.
func (h *bound) url(at network.Endpoint) (*url.URL, error) {
	base, err := h.baseURL()
	if err != nil {
		return nil, err
	}
	return withHost(base, at)
}

// baseURL returns the URL of all attempts with a placeholder as the host.
func (h *bound) baseURL() (url.URL, error) {
	if !h.plain {
		return *h.base, nil
	}
	scheme := "http"
	if h.https {
		scheme = "https"
	}
	base, err := url.Parse(scheme + "://host:1" + h.lines.target)
	if err != nil {
		return url.URL{}, err
	}
	return *base, nil
}

// attempt is one attempt of a bound handler.
type attempt struct {
	*bound
	req      *probe.Request
	ctx      context.Context // context of the attempt, for dials of net/http
	lasts    context.Context // ends with ctx, or when the attempt has returned
	progress network.Progress
	answered bool         // progress has recorded the response
	hooked   bool         // net/http reports its phases to progress
	resumed  *resumedConn // connection of the lean path that net/http continues; nil if there is none
}

// attemptKey is the context key of the *attempt.
type attemptKey struct{}

// withoutDeadline is a context that ends with another one, but hides its deadline. A dialer that knows the
// deadline times out slightly earlier, which would change the error of the attempt.
type withoutDeadline struct{ context.Context }

// Deadline implements [context.Context].
func (withoutDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }

// dialError returns err, the error of a dial. If the attempt's context has ended, it returns the error of
// the context, as net/http does if it notices the end first.
func (h *attempt) dialError(err error) error { return cmp.Or(h.ctx.Err(), err) }

// newRequest returns the request for u.
func (h *attempt) newRequest(ctx context.Context, u *url.URL) *http.Request {
	header := h.own
	if header == nil {
		header = h.header
	}
	return (&http.Request{
		Method: http.MethodGet,
		URL:    u,
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, // shared by all attempts: net/http only reads it
		Host:   header.Get("Host"),
	}).WithContext(ctx)
}

// get sends req and returns the outcome. ctx is the context of the attempt.
func (h *attempt) get(ctx context.Context, client *http.Client, req *http.Request) (probe.Outcome, error) {
	res, err := client.Do(req)
	if h.resumed != nil {
		h.resumed.hasReturned()
	}
	if err != nil {
		return requestError(ctx, err)
	}
	defer res.Body.Close()
	if !h.answered {
		h.progress.Answered(res.StatusCode)
	}
	body, err := h.body(ctx, res)
	if err == nil {
		h.progress.Done()
		return h.answer(res.StatusCode, body), nil
	}
	out, err := h.bodyError(ctx, res.StatusCode, err)
	h.show(&out, body)
	return out, err
}

// body reads the body of res up to the limit. The rest of a longer body does not matter.
func (h *attempt) body(ctx context.Context, res *http.Response) ([]byte, error) {
	if res.StatusCode == http.StatusSwitchingProtocols {
		// The body is the connection, and net/http does not close it with the request. The
		// kubelet's probe hangs for ever.
		defer context.AfterFunc(ctx, func() { _ = res.Body.Close() })()
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, probe.MaxOutput))
	if err != nil && res.StatusCode == http.StatusSwitchingProtocols {
		err = cmp.Or(ctx.Err(), err)
	}
	return body, err
}

// answer returns the outcome of a response.
func (h *attempt) answer(status int, body []byte) probe.Outcome {
	out := judge(h.req, status, body)
	h.show(&out, body)
	return out
}

// show adds the body of the response to out if [Config.ShowBody] is set.
func (h *attempt) show(out *probe.Outcome, body []byte) {
	if h.showBody && out.Result == probe.Failure {
		// Secrets are redacted before the cut, because the rest of a cut secret could not be found.
		text := h.req.Redacted(string(body))
		out.Details = explain.Details{Body: explain.Excerpt(text, explain.MaxBody)}.String()
	}
}

// requestError returns the outcome of an attempt without a response.
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

// bodyError returns the outcome if the body of the response hung or was cut off: a Failure, or an
// error with [probe.CompatBodyHangIsError] (kubernetes#122591).
func (h *bound) bodyError(ctx context.Context, status int, err error) (probe.Outcome, error) {
	text, reason := err.Error(), probe.ReasonBody
	if timedOut(ctx, err) {
		text += " (Client.Timeout or context cancellation while reading body)" // as in requestError
		reason = probe.ReasonDeadline
	}
	if h.bodyErrorIsError {
		// The error must not match context.DeadlineExceeded, which would make it a Failure. As in
		// the kubelet's event, the result is Failure, not Unknown.
		return probe.Outcome{Result: probe.Failure}, &probe.Error{Reason: probe.ReasonBody, Err: errors.New(text)}
	}
	if _, ok := errors.AsType[textproto.ProtocolError](err); ok {
		text = "malformed trailer" // the original error quotes the body, see judge
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

// judge returns the outcome of a response. It omits the body of a failure, because that would disclose to pod
// authors the contents of servers that the agent can reach (kubernetes#99425). See [Config.ShowBody].
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
