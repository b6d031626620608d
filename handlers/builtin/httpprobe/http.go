// Package httpprobe has the http handler of the kubelet. A probe sends a GET request. A final status from
// 200 to 299 is a Success, and from 300 to 399 a Warning.
//
// A plain request with an ordinary response needs no net/http, over HTTP/1.1, or over HTTP/2 with TLS to
// an IP address. net/http makes all other attempts. It also continues attempts whose response is not an
// ordinary one.
package httpprobe

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/http2"

	"github.com/daeace23/prober/handlers/builtin/internal/network"
	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/internal/httpget"
	"github.com/daeace23/prober/probe"
)

// handshakeTimeout is the time limit for a TLS handshake.
const handshakeTimeout = 10 * time.Second

// DefaultUserAgent is the default user agent of probes. Service meshes and autoscalers recognize probes by
// its first word.
const DefaultUserAgent = network.UserAgent

// Config configures a [Handler]. The zero value is ready to use.
type Config struct {
	// DialContext makes every connection. Nil means a [net.Dialer]. The network is "tcp", or "unix"
	// if the target is a socket. DialContext must return when ctx ends, and its connections must
	// support SetDeadline, because an attempt waits for both.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Compat restores behaviours of the kubelet. These switches have an effect:
	// [probe.CompatBodyHangIsError], [probe.CompatLinger], [probe.CompatHostTrouble],
	// [probe.CompatPortNumbers] and [probe.CompatIgnoreProtocol].
	Compat probe.Compat
	// UserAgent replaces [DefaultUserAgent] unless it is empty.
	UserAgent string
	// FollowNonLocalRedirects follows redirects to other hosts. The kubelet's probes do not.
	FollowNonLocalRedirects bool
	// ShowBody adds the beginning of the body of a failed probe to the outcome's details, as
	// {"body": "…"}: at most 256 bytes, escaped, without the config's secrets. It is never part of
	// the output, because the output becomes the text of an event. There a body would disclose to pod
	// authors the contents of servers that the agent can reach (kubernetes#99425).
	ShowBody bool
}

// Handler is the http handler. Each attempt makes its own connection, except with [Action.Reuse].
// Certificates are not verified, and no proxy is used, even if the environment sets one. One Handler
// serves any number of probes.
type Handler struct {
	userAgent        string
	header           http.Header // default header of probes; read-only, like all fields
	headerLines      string      // the lines of header
	bodyErrorIsError bool
	ignoreProtocol   bool // ignore the protocol in configs
	showBody         bool
	ownDial          bool // Config.DialContext is nil
	connector        *network.Connector
	dial             network.DialFunc // dial function of the transports
	client           *http.Client     // HTTP/1.1, and HTTP/2 if a TLS handshake negotiates it
	h2c              *http.Client     // HTTP/2 with prior knowledge
	resuming         *http.Client     // like client, for attempts that the lean path has begun
	tls              *tls.Config      // TLS configuration of client
}

var _ probe.Preparer = (*Handler)(nil)

// New returns the http handler.
func New(cfg Config) *Handler {
	dial := dialOfAttempt(network.Dialer(cfg.DialContext, cfg.Compat))
	unencrypted := unencryptedHTTP2()
	fresh := newTransport(dial, nil)
	fresh.CloseIdleConnections() // also completes TLSClientConfig
	h := &Handler{
		userAgent:        cmp.Or(cfg.UserAgent, DefaultUserAgent),
		bodyErrorIsError: cfg.Compat.Has(probe.CompatBodyHangIsError),
		ignoreProtocol:   cfg.Compat.Has(probe.CompatIgnoreProtocol),
		showBody:         cfg.ShowBody,
		ownDial:          cfg.DialContext == nil,
		connector:        network.NewConnector(cfg.DialContext, cfg.Compat),
		dial:             dial,
		client:           &http.Client{Transport: hops{fresh}},
		h2c:              &http.Client{Transport: hops{newTransport(dial, unencrypted)}},
		resuming:         &http.Client{Transport: &resumingTransport{newResumed(nil), hops{fresh}}},
	}
	h.tls = fresh.TLSClientConfig
	if !cfg.FollowNonLocalRedirects { // otherwise net/http's policy applies, which also stops after 10
		h.client.CheckRedirect, h.h2c.CheckRedirect, h.resuming.CheckRedirect = httpget.CheckRedirect, httpget.CheckRedirect, httpget.CheckRedirect
	}
	h.header = httpget.Header(nil, h.userAgent)
	h.headerLines, _ = headerLines(h.header)
	return h
}

// unencryptedHTTP2 returns the protocols for HTTP/2 without TLS, and with TLS after a redirect.
func unencryptedHTTP2() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	p.SetHTTP2(true)
	return p
}

// isolate returns client for an attempt with ctx. In a network namespace, it returns a copy with a new
// transport, because net/http shares HTTP/2 connections between requests to one address, and other
// namespaces may have the same address.
func (h *Handler) isolate(ctx context.Context, client *http.Client) *http.Client {
	if netns.From(ctx) == nil {
		return client
	}
	var protocols *http.Protocols
	if client == h.h2c {
		protocols = unencryptedHTTP2()
	}
	own := *client
	own.Transport = hops{newTransport(h.dial, protocols)}
	return &own
}

// hops is a transport that reports TLS handshakes after a redirect to the attempt.
type hops struct{ *http.Transport }

// RoundTrip implements [http.RoundTripper].
func (t hops) RoundTrip(req *http.Request) (*http.Response, error) {
	if a, ok := req.Context().Value(attemptKey{}).(*attempt); ok && !a.hooked && req.URL.Scheme == "https" {
		req = req.WithContext(a.progress.Hooks(req.Context()))
	}
	return t.Transport.RoundTrip(req)
}

// newTransport returns a transport that makes a new connection for each request. Every phase ends with the
// request's context.
func newTransport(dial network.DialFunc, protocols *http.Protocols) *http.Transport {
	t := &http.Transport{
		DialContext:         dial,
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true},
		TLSHandshakeTimeout: handshakeTimeout,
		DisableKeepAlives:   true,
		DisableCompression:  true,
		Protocols:           protocols,
	}
	// As the kubelet does. The HTTP/2 of Go 1.26 deadlocks when a server overflows a window.
	//lint:ignore SA1019 Protocols alone would use the HTTP/2 of net/http.
	if err := http2.ConfigureTransport(t); err != nil {
		panic(err) // cannot happen: the transport is new
	}
	return t
}

// dialOfAttempt returns a dial function for transports. It calls dial for the attempt that the context of
// the request has.
func dialOfAttempt(dial network.DialFunc) network.DialFunc {
	return func(ctx context.Context, nw, address string) (net.Conn, error) {
		a, ok := ctx.Value(attemptKey{}).(*attempt)
		if !ok {
			return dial(ctx, nw, address)
		}
		// With ctx, net/http would continue the dial after the attempt has ended.
		conn, err := a.progress.Dial(a.ctx, dial, nw, address, network.StepHTTP)
		if err != nil {
			return nil, a.dialError(err)
		}
		b := &bounded{Conn: conn}
		b.lifetime.begin(a.lasts, conn)
		return b, nil
	}
}

// Probe carries out an attempt at the request's own target.
func (h *Handler) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	b, err := h.Bind(Action{})
	if err != nil {
		return probe.Outcome{}, err
	}
	return b.Probe(ctx, req)
}
