package guest

import (
	"bytes"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/handlers/wasm/internal/egress"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/certificates"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

func httpFuncs() map[string]hostFunc {
	return map[string]hostFunc{"do": i32(httpDo), "head": i32(httpHead), "read": i32(httpRead), "close": i32(httpClose)}
}

const (
	maxHTTPRequest = 64 << 10 // bytes of the request document
	maxHTTPHead    = 64 << 10 // bytes of the response header
)

// exchange is one request with its redirects, and the header of the response. It is the transport
// of each hop: it checks the grants, and dials the allowed address.
type exchange struct {
	call      *Call
	options   abi.TLSOptions
	route     egress.Route
	proxy     *url.URL // nil means none
	onSocket  bool     // the host socketHost means the target's socket
	transport http.Transport
	head      abi.HTTPHead
	sent      time.Time // when the last hop began
	hops      int
	ended     bool // the host call has returned; guarded by call.mu
}

var _ http.RoundTripper = (*exchange)(nil)

// socketHost is the host in the URL of a target that is a unix socket.
const socketHost = "localhost"

// hopKey is the key of the hop in its context.
type hopKey struct{}

// hop is the endpoint of a request, and the deadline for dialing it: net/http does not apply the
// deadline of the request to its dial.
type hop struct {
	to    egress.Endpoint
	until time.Time // zero means none
}

// tlsKey is the key of the TLS configuration in the context of a hop.
type tlsKey struct{}

// TLSConfig returns the TLS configuration of the hop whose context is ctx, or nil for other contexts.
func TLSConfig(ctx context.Context) *tls.Config {
	config, _ := ctx.Value(tlsKey{}).(*tls.Config)
	return config
}

func httpDo(c *Call, mem api.Memory, a args) int32 {
	if c.inInitialize || c.offline {
		return c.fail(abi.EPERM, "the network can be reached from probe only")
	}
	room := uint32(c.plugin.Limits.NetWrite - c.net.written)
	if uint32(a[3]) > room {
		c.Hit(plugin.LimitNetWrite)
	}
	if uint32(a[1]) > maxHTTPRequest || uint32(a[3]) > room {
		return c.fail(abi.EMSGSIZE, "http: a request of %d bytes with a body of %d", uint32(a[1]), uint32(a[3]))
	}
	doc, ok := a.span(mem, 0)
	body, okBody := a.span(mem, 2)
	if !ok || !okBody {
		return c.badPointer()
	}
	r, err := abi.Decode[abi.HTTPRequest](doc)
	if err != nil {
		return c.fail(abi.EINVAL, "http: request: %v", err)
	}
	c.outlived = true // net/http may continue to dial
	c.net.written += len(body)
	body = bytes.Clone(body)
	start := c.host.Clock.Now()
	var answer *answer
	where := c.webPlace(r.URL)
	c.idle(waiting{call: "http", where: cmp.Or(r.Method, http.MethodGet) + " " + where, stage: stageHeaders}, func(ctx context.Context) { answer, err = c.exchange(ctx, r, body) })
	c.clearFault()
	if err != nil {
		return c.dialError("http", r.URL, start, err)
	}
	handle := c.web.add(c.ctx, &conn{Conn: answer, network: "http", host: where})
	c.Trace(probe.TraceEvent{
		Type: probe.TraceCall, Name: "http", Duration: c.host.since(start),
		Detail: fmt.Sprintf("%s %s: %d", r.Method, answer.exchange.head.URL, answer.exchange.head.Status),
	})
	return handle
}

// answer is the body of a response, in the form of a connection, so that a pump can read it.
type answer struct {
	net.Conn // nil
	io.Reader
	exchange *exchange
	end      func()
}

func (a *answer) Read(p []byte) (int, error) { return a.Reader.Read(p) }

func (a *answer) Close() error {
	a.end()
	return nil
}

// webPlace returns rawURL for messages, with the target's host if it has none. It leaves out the query, which can
// have tokens that the host does not know, and the user.
func (c *Call) webPlace(rawURL string) string {
	if u, err := webURL(rawURL); err == nil {
		shown := u
		if at, err := c.onTarget(u); err == nil {
			shown = *at
		}
		shown.RawQuery, shown.ForceQuery, shown.User, shown.Fragment, shown.RawFragment = "", false, nil, "", ""
		rawURL = shown.String()
		if t := c.req.Target; t.Unix != "" && u.Host == "" {
			rawURL += " on unix:" + t.Unix
		}
	}
	return c.req.Redacted(rawURL)
}

// exchange sends a request and returns when the header of the response has arrived.
func (c *Call) exchange(ctx context.Context, r abi.HTTPRequest, body []byte) (*answer, error) {
	named, err := webURL(r.URL)
	if err != nil {
		return nil, err
	}
	if c.web.open >= c.plugin.Limits.Handles {
		return nil, &limit{plugin.LimitHandles, abi.EMFILE, fmt.Sprintf("more than %d open answers", c.web.open)}
	}
	x, err := c.newExchange(&r)
	if err != nil {
		return nil, err
	}
	x.onSocket = c.req.Target.Unix != "" && named.Host == ""
	target, err := c.onTarget(named)
	if err != nil {
		return nil, err
	}
	cancel := func() {}
	if r.TimeoutMs > 0 {
		ctx, cancel = c.host.Clock.WithTimeout(ctx, time.Duration(r.TimeoutMs)*time.Millisecond)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, target.String(), bytes.NewReader(body))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("http: %w", err)
	}
	for name, value := range r.Headers {
		req.Header.Set(name, value)
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	client := http.Client{Transport: x, CheckRedirect: x.redirect(r.Redirects)}
	resp, err := client.Do(req)
	x.end()
	if err != nil {
		cancel()
		x.transport.CloseIdleConnections()
		return nil, x.httpError(err)
	}
	x.recordHeader(resp)
	return &answer{Reader: decompressed(r.Decompress, resp.Body, c.plugin.Limits.HTTPBody), exchange: x, end: func() {
		cancel()
		_ = resp.Body.Close()
		x.transport.CloseIdleConnections()
	}}, nil
}

// newExchange returns an exchange for r after checking its options.
func (c *Call) newExchange(r *abi.HTTPRequest) (*exchange, error) {
	switch {
	case len(r.TLS.ALPN) > 0:
		return nil, errors.New("http: tls: alpn: the host chooses it")
	case strings.EqualFold(r.Method, http.MethodConnect):
		return nil, errors.New("http: the method CONNECT is not allowed")
	case r.Decompress != "" && r.Decompress != abi.Gzip && r.Decompress != abi.Deflate:
		return nil, fmt.Errorf("http: decompress %.40q: must be %s or %s", r.Decompress, abi.Gzip, abi.Deflate)
	}
	x := &exchange{call: c, options: r.TLS}
	var err error
	if x.route, err = egress.NewRoute(r.Route); err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	x.options.ALPN = []string{"http/1.1"}
	if r.HTTP2 {
		x.options.ALPN = []string{"h2", "http/1.1"}
	}
	x.transport = http.Transport{
		DialContext: x.dial, DialTLSContext: x.dialTLS, ForceAttemptHTTP2: r.HTTP2,
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHTTPHead,
	}
	if r.Proxy == "" {
		return x, nil
	}
	if x.proxy, err = url.Parse(r.Proxy); err != nil || x.proxy.Scheme != "http" || x.proxy.Hostname() == "" {
		return nil, errors.New("http: proxy: must be http://HOST:PORT")
	}
	x.transport.Proxy = http.ProxyURL(x.proxy)
	x.transport.ProxyConnectHeader = http.Header{}
	for name, value := range r.ProxyHeaders {
		x.transport.ProxyConnectHeader.Set(name, value)
	}
	if x.transport.TLSClientConfig, err = c.tlsConfig("", x.options); err != nil { // net/http adds the name
		return nil, err
	}
	return x, nil
}

// redirect returns a CheckRedirect function that follows up to wanted redirects. Credentials are not sent to another
// host name or port, and not without TLS where it was used: net/http sends them to subdomains and other ports too.
func (x *exchange) redirect(wanted int) func(*http.Request, []*http.Request) error {
	return func(next *http.Request, via []*http.Request) error {
		c := x.call
		if maxBytes := c.plugin.Limits.Redirects; len(via) > min(wanted, maxBytes) {
			if wanted > maxBytes {
				c.Hit(plugin.LimitRedirects)
			}
			return http.ErrUseLastResponse
		}
		x.head.Redirects = len(via)
		for _, before := range via {
			if !keepsCredentials(before.URL, next.URL) {
				next.Header.Del("Authorization")
				next.Header.Del("Cookie")
			}
		}
		return nil
	}
}

// keepsCredentials reports whether a request may have the credentials of another one: it has the same origin, or the
// same host with TLS on the usual port.
func keepsCredentials(from, to *url.URL) bool {
	port := func(u *url.URL) string {
		return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	if !strings.EqualFold(from.Hostname(), to.Hostname()) {
		return false
	}
	return from.Scheme == to.Scheme && port(from) == port(to) || to.Scheme == "https" && port(from) == "80" && port(to) == "443"
}

// webURL parses a URL.
func webURL(text string) (url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Opaque != "" {
		return url.URL{}, fmt.Errorf("http: %.200q: want http:// or https://HOST/path", text)
	}
	return *u, nil
}

// onTarget returns u, with the target's host if it has none.
func (c *Call) onTarget(u url.URL) (*url.URL, error) {
	switch t := c.req.Target; {
	case u.Host != "":
	case t.Unix != "":
		u.Host = socketHost
	case t.Host == "":
		return nil, errors.New("http: the probe's target has no host")
	default:
		u.Host = net.JoinHostPort(t.Host, strconv.Itoa(t.Port))
	}
	return &u, nil
}

// httpError returns err with the hop that failed. It removes the URL that net/http adds, because the guest knows
// the first one.
func (x *exchange) httpError(err error) error {
	e, ok := errors.AsType[*url.Error](err)
	if !ok {
		return fmt.Errorf("http: %w", err)
	}
	err = ended(e.Err, "without a response", "within the response headers")
	if x.head.Redirects > 0 {
		return fmt.Errorf("http: redirect %d to %s: %w", x.head.Redirects, shownURL(e.URL), err)
	}
	return fmt.Errorf("http: %w", err)
}

// maxShownURL is the greatest length of a redirect's URL in errors, in bytes.
const maxShownURL = 200

// shownURL returns the URL of a redirect for messages. It has no query, which can have tokens.
func shownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "an invalid URL"
	}
	return clip.Text((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), maxShownURL)
}

// recordHeader records the header of the response.
func (x *exchange) recordHeader(resp *http.Response) {
	x.head.Status, x.head.Proto, x.head.URL = resp.StatusCode, resp.Proto, resp.Request.URL.String()
	x.head.Length = resp.ContentLength
	x.head.Headers = make(map[string]string, len(resp.Header))
	for name, values := range resp.Header {
		name = strings.ToLower(name)
		x.head.Headers[name] = strings.Join(values, ", ")
		for _, value := range values {
			if len(values) > 1 {
				x.head.Repeated = append(x.head.Repeated, abi.HTTPHeader{Name: name, Value: value})
			}
		}
	}
	slices.SortStableFunc(x.head.Repeated, func(a, b abi.HTTPHeader) int { return cmp.Compare(a.Name, b.Name) })
	if x.proxy != nil && resp.TLS != nil {
		x.head.Peer = stateInfo(resp.TLS, resp.TLS.ServerName, x.call.host.Clock.Now())
	}
}

// RoundTrip implements [http.RoundTripper]. It makes one hop if the grants allow it.
func (x *exchange) RoundTrip(req *http.Request) (*http.Response, error) {
	c := x.call
	if err := c.countDial(); err != nil {
		return nil, err
	}
	if err := x.countAgain(req.ContentLength); err != nil {
		return nil, err
	}
	start := c.host.Clock.Now()
	c.stage(x.withExchange(req.Context()), stageLookup, "", nil)
	to, err := x.endpoint(req.Context(), req.URL)
	if err != nil {
		return nil, err
	}
	if err := to.CheckHost(req.Host, req.URL.Host); err != nil {
		return nil, err
	}
	if to, err = x.viaProxy(req.Context(), to); err != nil {
		return nil, err
	}
	if to.Addrs, err = x.route.Choose(to); err != nil {
		return nil, fmt.Errorf("dial %s: %w", to.Network, err)
	}
	x.head.DNS, x.sent = c.host.since(start), c.host.Clock.Now()
	x.head.Peer, x.head.Connect, x.head.TLS, x.head.FirstByte = nil, 0, 0, 0
	var resp *http.Response
	connected := x.sent
	if c.host.RoundTrip != nil {
		resp, err = x.roundTripCustom(req, to)
	} else {
		resp, err = x.send(req, to, &connected)
	}
	if err != nil {
		return resp, err // the phases may still change, because net/http may still dial
	}
	sum := &x.head.Phases
	sum.Resolve += x.head.DNS
	sum.Connect += x.head.Connect
	sum.TLS += x.head.TLS
	sum.Processing += max(0, x.sent.Add(x.head.FirstByte).Sub(connected))
	return resp, nil
}

// exchangeKey is the key of the exchange in the contexts of its calls.
type exchangeKey struct{}

// withExchange returns ctx with x, for [Call.stage].
func (x *exchange) withExchange(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// end records that the host call of x returns. Goroutines of net/http may still run.
func (x *exchange) end() {
	x.call.mu.Lock()
	defer x.call.mu.Unlock()
	x.ended = true
}

// proceed records the step that x waits for next, on the same connection.
func (x *exchange) proceed(stage string) {
	x.call.mu.Lock()
	defer x.call.mu.Unlock()
	if !x.ended {
		x.call.record.stage = stage
	}
}

// viaProxy returns the endpoint to dial for a hop to the allowed endpoint to. Without a proxy, it is
// to. With a proxy, it is the proxy, if the grants allow that too. The proxy resolves the name of the
// hop again.
func (x *exchange) viaProxy(ctx context.Context, to egress.Endpoint) (egress.Endpoint, error) {
	switch {
	case x.proxy == nil:
		return to, nil
	case to.Network == "unix":
		return to, errors.New("http: proxy: the target is a unix socket")
	}
	addr := net.JoinHostPort(x.proxy.Hostname(), cmp.Or(x.proxy.Port(), "80"))
	return x.call.egress(plugin.CapabilityHTTP).Dial(ctx, "http", addr, "")
}

// send makes the hop with the transport. It sets connected to the time at which the connection was
// ready, after its TLS handshake.
func (x *exchange) send(req *http.Request, to egress.Endpoint, connected *time.Time) (*http.Response, error) {
	until, _ := req.Context().Deadline()
	clock := x.call.host.Clock
	var handshake time.Time
	trace := &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { *connected = clock.Now() },
		GotFirstResponseByte: func() {
			x.head.FirstByte = x.call.host.since(x.sent)
			x.proceed(stageResponse)
		},
	}
	if x.proxy != nil { // net/http makes the handshake, not dialTLS
		trace.TLSHandshakeStart = func() {
			handshake = clock.Now()
			x.proceed(stageHandshake)
		}
		trace.TLSHandshakeDone = func(state tls.ConnectionState, err error) {
			x.call.shown.add(certificates.ShownIn(&state, err))
			if x.head.TLS = x.call.host.since(handshake); err == nil {
				x.proceed(stageHeaders)
			}
		}
	}
	ctx := context.WithValue(x.withExchange(req.Context()), hopKey{}, &hop{to, until})
	resp, err := x.transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok && x.proxy != nil {
		err = x.call.handshakeError(err)
	}
	return resp, err
}

// countAgain counts the bytes of a body that a redirect sends again.
func (x *exchange) countAgain(n int64) error {
	if x.hops++; x.hops == 1 || n <= 0 {
		return nil
	}
	c := x.call
	if n > int64(c.plugin.Limits.NetWrite-c.net.written) {
		c.Hit(plugin.LimitNetWrite)
		return &limit{plugin.LimitNetWrite, abi.EDQUOT, fmt.Sprintf("more than %d bytes written in one run", c.plugin.Limits.NetWrite)}
	}
	c.net.written += int(n)
	return nil
}

// endpoint returns the endpoint of a hop, or an error if the grants do not allow it.
func (x *exchange) endpoint(ctx context.Context, u *url.URL) (egress.Endpoint, error) {
	p := x.call.egress(plugin.CapabilityHTTP)
	if x.onSocket && u.Host == socketHost {
		to, err := p.Unix(p.Target.Unix)
		to.Host, to.OnTarget = socketHost, true
		return to, err
	}
	port := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	if port == "" {
		return egress.Endpoint{}, fmt.Errorf("redirect to %.200q: want http:// or https://", u)
	}
	return p.Dial(ctx, u.Scheme, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)), u.EscapedPath())
}

// roundTripCustom makes the hop with Config.RoundTrip.
func (x *exchange) roundTripCustom(req *http.Request, to egress.Endpoint) (*http.Response, error) {
	config, err := x.call.tlsConfig(to.Host, x.options)
	if err != nil {
		return nil, err
	}
	x.head.Remote = to.Addrs[0]
	x.call.stage(x.withExchange(req.Context()), stageHeaders, x.head.Remote, nil)
	resp, err := x.call.host.RoundTrip(req.WithContext(context.WithValue(req.Context(), tlsKey{}, config)), to.Addrs[0])
	x.head.FirstByte = x.call.host.since(x.sent)
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		x.call.shown.add(certificates.ShownIn(nil, err))
		err = x.call.handshakeError(err)
	}
	if err == nil && resp != nil && resp.TLS != nil {
		x.call.shown.add(certificates.ShownIn(resp.TLS, nil))
		x.head.Peer = stateInfo(resp.TLS, cmp.Or(x.options.ServerName, to.Host), x.call.host.Clock.Now())
	}
	return resp, err
}

// dial connects to the endpoint of the hop. It ignores the address that net/http passes.
func (x *exchange) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	hop, ok := ctx.Value(hopKey{}).(*hop)
	if !ok {
		return nil, errors.New("http: dial without a hop")
	}
	start := x.call.host.Clock.Now()
	if !hop.until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = x.call.host.Clock.WithTimeout(ctx, hop.until.Sub(start))
		defer cancel()
	}
	raw, err := x.call.dialAny(x.route.Context(ctx), hop.to)
	if err != nil {
		return nil, err
	}
	x.head.Connect, x.head.Remote = x.call.host.since(start), raw.RemoteAddr().String()
	if x.call.host.Handshake != nil { // it may need the net.Conn itself
		x.call.stage(ctx, stageHeaders, x.head.Remote, nil)
		return raw, nil
	}
	over := &countedConn{Conn: raw, connect: x.head.Connect}
	x.call.stage(ctx, stageHeaders, x.head.Remote, over)
	return over, nil
}

// dialTLS connects to the endpoint of the hop, and makes the TLS handshake.
func (x *exchange) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	raw, err := x.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, host: ctx.Value(hopKey{}).(*hop).to.Host}
	if err := x.call.secure(ctx, c, x.options); err != nil {
		_ = raw.Close()
		return nil, err
	}
	x.proceed(stageHeaders)
	x.head.TLS, x.head.Peer = c.handshake, tlsInfo(c.Conn, c.serverName, x.call.host.Clock.Now())
	return c.Conn, nil
}

// decompressed returns a reader that decodes body. encoding "" means none. It reads at most maxBytes bytes
// of body.
func decompressed(encoding string, body io.Reader, maxBytes int) io.Reader {
	if encoding == "" {
		return body
	}
	d := &decompressor{encoding: encoding, from: io.LimitReader(body, int64(maxBytes))}
	if r, ok := body.(readiness); ok {
		return &collector{decompressor: d, body: body, ready: r, maxBytes: maxBytes}
	}
	return d
}

// decompressor decodes a compressed body.
type decompressor struct {
	encoding string
	from, to io.Reader // to is nil before the first Read
}

func (d *decompressor) Read(p []byte) (n int, err error) {
	if d.to == nil && d.encoding == abi.Gzip {
		unzip, err := gzip.NewReader(d.from)
		if err != nil {
			return 0, decompressError(err)
		}
		d.to = unzip
	} else if d.to == nil {
		d.to = flate.NewReader(d.from)
	}
	if n, err = d.to.Read(p); err != nil && err != io.EOF {
		err = decompressError(err)
	}
	return n, err
}

// decompressError returns err as an error for the guest: EPROTO if the body is malformed or truncated.
func decompressError(err error) error {
	if errno := errnoOf(err); errno != abi.EINVAL {
		return err
	}
	return &limit{errno: abi.EPROTO, text: "decompress: " + err.Error()}
}

// collector decompresses a body that implements readiness. It buffers the body until it is complete.
type collector struct {
	*decompressor
	body     io.Reader
	ready    readiness
	maxBytes int
	all      bytes.Buffer
	ended    bool
}

// Ready implements [readiness].
func (d *collector) Ready() bool {
	var buf [1024]byte
	for !d.ended && d.ready.Ready() {
		n, err := d.body.Read(buf[:])
		d.all.Write(buf[:n])
		if d.ended = err != nil || d.all.Len() > d.maxBytes; d.ended {
			d.from = &d.all
		}
	}
	return d.ended
}

// webAnswer returns the response of a handle, or the negative number of an error.
func (c *Call) webAnswer(handle int32) (*answer, int32) {
	conn := c.web.get(handle)
	if conn == nil {
		return nil, c.fail(abi.EBADF, "there is no handle %d", handle)
	}
	return conn.Conn.(*answer), 0
}

func httpHead(c *Call, mem api.Memory, a args) int32 {
	answer, bad := c.webAnswer(a.i32(0))
	if answer == nil {
		return bad
	}
	return c.put(mem, a, 1, abi.Append(nil, &answer.exchange.head))
}

func httpRead(c *Call, mem api.Memory, a args) int32 {
	if answer, bad := c.webAnswer(a.i32(0)); answer == nil {
		return bad
	}
	return c.readFrom(&c.web, c.web.get(a.i32(0)), plugin.LimitHTTPBody, mem, a)
}

func httpClose(c *Call, _ api.Memory, a args) int32 {
	if answer, bad := c.webAnswer(a.i32(0)); answer == nil {
		return bad
	}
	c.web.close(a.i32(0))
	return 0
}
