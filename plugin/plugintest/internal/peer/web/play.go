package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin/plugintest/internal/cert"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer/httpmatch"
)

// player plays the exchanges for one attempt.
type player struct {
	net        *peer.Network
	everywhere peer.Behaviour
	exchanges  []*exchange

	mu sync.Mutex // guards how often exchanges have answered
}

var _ peer.HTTPPlayer = (*player)(nil)

// exchange is an [Exchange] and how often it has answered.
type exchange struct {
	*Exchange
	answered int
}

// Play implements [peer.Peers].
func (e *exchanges) Play(n *peer.Network) peer.Player {
	p := &player{net: n, everywhere: e.everywhere}
	for i := range e.list {
		x := &e.list[i]
		p.exchanges = append(p.exchanges, &exchange{Exchange: x})
		if u, err := url.Parse(x.Match.URL.Source); err == nil && !x.Match.URL.IsRegex() {
			n.Hosts.Addr(u.Hostname())
		}
	}
	return p
}

// Dial implements [peer.Player]. It finds no peer: a plugin that dials an HTTP server itself needs a
// peer in host.net.
func (p *player) Dial(context.Context, string, string) (net.Conn, bool, error) {
	return nil, false, nil
}

// RoundTrip implements [peer.HTTPPlayer].
func (p *player) RoundTrip(req *http.Request, addr string) (*http.Response, error) {
	ctx := req.Context()
	x, err := p.find(req)
	if err != nil {
		return nil, err
	}
	if x == nil {
		return nil, peer.Refused("tcp", addr)
	}
	if err := p.net.Delay(ctx, "tcp", addr, x.Behaviour, x.Reply.Latency); err != nil {
		return nil, err
	}
	var state *tls.ConnectionState
	if req.URL.Scheme == "https" && req.TLS == nil { // with req.TLS a process has made it
		config := cmp.Or(wasm.TLSConfig(ctx), &tls.Config{ServerName: req.URL.Hostname()})
		made, err := cmp.Or(x.TLS, cert.Valid()).Handshake("tls://"+req.URL.Host, p.net.Clock.Now(), config)
		if err != nil {
			return nil, err
		}
		state = &made
	}
	switch x.Behaviour {
	case peer.Reset:
		return nil, peer.OpError("read", "tcp", addr, syscall.ECONNRESET)
	case peer.Garbage:
		return nil, fmt.Errorf("malformed HTTP response %q", p.net.Garbage()[:16])
	case peer.HalfOpen:
		p.net.Clock.Wait(ctx, nil, -1)
		return nil, ctx.Err()
	}
	return p.reply(req, x, state), nil
}

// find returns the exchange of a request; nil, with a failure of the case, if there is none.
func (p *player) find(req *http.Request) (*Exchange, error) {
	body, err := httpmatch.ReadBody(req)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var found *exchange
	for _, x := range p.exchanges {
		if x.Match.Difference(req, body) != "" {
			continue
		}
		if found = x; x.answered == 0 {
			break
		}
	}
	switch {
	case found != nil:
		found.answered++
		return found.Exchange, nil
	case p.everywhere != "":
		p.net.Contact()
		return &Exchange{Behaviour: p.everywhere}, nil
	}
	p.net.Faultf("the plugin requests %s %s, for which host.http has no exchange%s", req.Method, req.URL, p.differences(req, body))
	return nil, nil
}

// differences returns the differences between a request and the exchanges with its URL.
func (p *player) differences(req *http.Request, body []byte) string {
	var text strings.Builder
	for _, x := range p.exchanges {
		if x.Match.MatchesURL(req) {
			fmt.Fprintf(&text, "; %s: %s", p.net.Line(x.Line), x.Match.Difference(req, body))
		}
	}
	return text.String()
}

// body is the body of an answer. Its method Ready allows reading it without a goroutine.
type body struct{ peer.Buffer }

// reply returns the answer of an exchange.
func (p *player) reply(req *http.Request, x *Exchange, state *tls.ConnectionState) *http.Response {
	r := &x.Reply
	content := &body{}
	resp := &http.Response{
		Status:     fmt.Sprintf("%d %s", r.Status, http.StatusText(r.Status)),
		StatusCode: r.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: r.Headers.Clone(), Body: content, ContentLength: int64(len(r.Body)), Request: req, TLS: state,
	}
	if resp.Header == nil {
		resp.Header = http.Header{}
	}
	switch {
	case req.Method == http.MethodHead:
		content.Arrive(nil, io.EOF)
	case resp.Header.Get("Location") != "": // net/http reads it before it follows
		content.Arrive(r.Body, io.EOF)
	default:
		p.send(req.Context(), content, r, p.net.Clock.Now())
	}
	return resp
}

// send makes a body arrive with the timing and end of the reply.
func (p *player) send(ctx context.Context, to *body, r *Reply, now time.Time) {
	ends := map[peer.Behaviour]error{"": io.EOF, peer.Reset: syscall.ECONNRESET, peer.HalfOpen: nil}
	if r.Every == 0 {
		to.Arrive(r.Body, ends[r.End])
	} else {
		for i := range r.Body {
			now = now.Add(r.Every)
			p.net.Clock.At(now, func() { to.Arrive(r.Body[i:i+1], nil) })
		}
		p.net.Clock.At(now, func() { to.Arrive(nil, ends[r.End]) })
	}
	if p.net.RealTime {
		context.AfterFunc(ctx, func() { to.Arrive(nil, ctx.Err()) })
	}
}

// Unused implements [peer.Player].
func (p *player) Unused() (failures []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.exchanges {
		if x.answered == 0 {
			failures = append(failures, fmt.Sprintf("%s: no request matches %s", p.net.Line(x.Line), &x.Match))
		}
	}
	return failures
}

// States implements [peer.Player].
func (*player) States() []string { return nil }

// At implements [peer.Player].
func (p *player) At(network, addr string) (peer.Behaviour, bool) {
	if at := p.exchangesAt(addr); len(at) > 0 && network == "tcp" {
		return at[0].Behaviour, true
	}
	return "", false
}

// exchangesAt returns the exchanges that a server at addr may have.
func (p *player) exchangesAt(addr string) (at []*exchange) {
	for _, x := range p.exchanges {
		if own := p.addr(x); own == "" || own == addr {
			at = append(at, x)
		}
	}
	return at
}

// addr returns the IP:PORT of an exchange's server; "" if it may be any.
func (p *player) addr(x *exchange) string {
	u, err := url.Parse(x.Match.URL.Source)
	if err != nil || x.Match.URL.IsRegex() || u.Host == "" {
		return ""
	}
	return p.net.Hosts.HostPort(u.Hostname(), Port(u))
}

// Port returns the port of an HTTP URL.
func Port(u *url.URL) string {
	return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
}

// MarkUsed implements [peer.Player].
func (p *player) MarkUsed(network, addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if network == "tcp" {
		for _, x := range p.exchangesAt(addr) {
			x.answered++
		}
	}
}

// secured returns the first exchange at addr that may use TLS, or nil.
func (p *player) secured(addr string) *exchange {
	for _, x := range p.exchangesAt(addr) {
		if x.certificate() != nil {
			return x
		}
	}
	return nil
}

// certificate returns the certificate of the exchange's server; nil if it cannot use TLS.
func (x *exchange) certificate() *cert.Spec {
	if !x.Match.URL.IsRegex() && strings.HasPrefix(x.Match.URL.Source, "http://") {
		return nil
	}
	return cmp.Or(x.TLS, cert.Valid())
}

// Certificate implements [peer.HTTPPlayer].
func (p *player) Certificate(addr string) *cert.Spec {
	if x := p.secured(addr); x != nil {
		return x.certificate()
	}
	return nil
}

// HandshakeFailed implements [peer.HTTPPlayer].
func (p *player) HandshakeFailed(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x := p.secured(addr); x != nil {
		x.answered++
	}
}

// Unservable implements [peer.Player].
func (p *player) Unservable(guided bool) string {
	for _, x := range p.exchanges {
		if reason := p.unservable(x, guided); reason != "" {
			return p.net.Line(x.Line) + ": " + reason
		}
	}
	return ""
}

func (p *player) unservable(x *exchange, guided bool) string {
	network, target := p.net.TargetAddr()
	at, shown := p.addr(x), x.certificate()
	switch {
	case at == "" && network != "tcp":
		return "the target is no server of HTTP"
	case at != "" && at != target && !guided:
		return x.Match.URL.Source + peer.DialsByItself
	case (x.TLS != nil || at != "" && shown != nil) && !guided:
		return peer.OwnTLS
	}
	if other, _ := p.net.At("tcp", cmp.Or(at, target)); other != p {
		return "one port is of host.net or of host.http"
	}
	for _, other := range p.exchanges {
		if there := p.addr(other); there != "" && at != "" && there != at {
			continue
		}
		if other.Behaviour.Closed() != x.Behaviour.Closed() {
			return peer.OpenOrNot
		}
		if o := other.certificate(); o != nil && shown != nil && !reflect.DeepEqual(o, shown) {
			return "one port shows one certificate, before it is asked anything"
		}
	}
	return ""
}
