package plugintest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
)

// Exchange is one request of HTTP and its answer. A request gets the first exchange that
// matches it and has answered none; of those that have, the last one that matches.
type Exchange struct {
	Line      int
	Match     Match
	Reply     Reply
	Behaviour Behaviour // in place of the reply, but for its latency
	TLS       *TLS      // what is shown where the URL is https; nil for a certificate that is fine

	note string // of a recorder
}

// Match is what a request has to be. What is zero is not looked at.
type Match struct {
	Method  Text
	URL     Text            // of the path with its query, or of all of the URL
	Headers map[string]Text // of those that are there
	Body    *Body
}

// Body is what a body has to be: exactly one of its fields is set.
type Body struct {
	Text Text
	Data []byte
	JSON []byte // a document that means the same
}

// Reply is the answer to a request.
type Reply struct {
	Status  int
	Headers http.Header
	Body    []byte
	Latency time.Duration // until the head of the answer is there
	Every   time.Duration // from byte to byte of the body; 0 for all at once
	End     Behaviour     // after the body: "reset" or "half-open" in place of its end
}

// exchange is an [Exchange] and what became of it.
type exchange struct {
	*Exchange
	answered int // guarded by the network's mu
}

func (n *network) addWeb(c *Case) {
	for i := range c.Web {
		x := &c.Web[i]
		n.web = append(n.web, &exchange{Exchange: x})
		if u, err := url.Parse(x.Match.URL.Source); err == nil && x.Match.URL.regex == nil {
			n.name(u.Hostname())
		}
	}
}

// RoundTrip answers one request as a server at addr does.
func (n *network) RoundTrip(req *http.Request, addr string) (*http.Response, error) {
	ctx := req.Context()
	if n.over() {
		return nil, n.attempt.Err()
	}
	x, err := n.exchangeFor(req)
	if err != nil {
		return nil, err
	}
	if x == nil {
		return nil, refused("tcp", addr)
	}
	if err := n.delay(ctx, "tcp", addr, x.Behaviour, x.Reply.Latency); err != nil {
		return nil, err
	}
	var state *tls.ConnectionState
	if req.URL.Scheme == "https" && req.TLS == nil {
		shown := cmp.Or(x.TLS, newTLS())
		config := cmp.Or(wasm.TLSConfig(ctx), &tls.Config{ServerName: req.URL.Hostname()})
		made, err := shown.shake("tls://"+req.URL.Host, n.clock.Now(), config)
		if err != nil {
			return nil, err
		}
		state = &made
	}
	switch x.Behaviour {
	case ResetNow:
		return nil, opError("read", "tcp", addr, syscall.ECONNRESET)
	case Garbage:
		return nil, fmt.Errorf("malformed HTTP response %q", n.junk()[:16])
	case HalfOpen:
		n.clock.Wait(ctx, nil, -1)
		return nil, ctx.Err()
	}
	return n.reply(req, x.Exchange, state), nil
}

// exchangeFor returns the exchange of a request; nil, and a fault, if there is none.
func (n *network) exchangeFor(req *http.Request) (*exchange, error) {
	body, err := bodyOf(req)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	var found *exchange
	for _, x := range n.web {
		if x.Match.differs(req, body) != "" {
			continue
		}
		if found = x; x.answered == 0 {
			break
		}
	}
	if found != nil {
		found.answered++
	}
	n.mu.Unlock()
	if found == nil && n.all != "" {
		return &exchange{Exchange: &Exchange{Behaviour: n.meet().Behaviour}}, nil
	}
	if found == nil {
		n.fault("the plugin asks %s %s, of which host.http says nothing%s", req.Method, req.URL, n.nearest(req, body))
	}
	return found, nil
}

// nearest says in what a request differs from those of its URL.
func (n *network) nearest(req *http.Request, body []byte) string {
	var text strings.Builder
	for _, x := range n.web {
		if x.Match.matchesURL(req) {
			fmt.Fprintf(&text, "; %s: %s", n.line(x.Line), x.Match.differs(req, body))
		}
	}
	return text.String()
}

func bodyOf(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(req.Body)
	return body, errors.Join(err, req.Body.Close())
}

// differs says in what a request is another than m, or "".
func (m *Match) differs(req *http.Request, body []byte) string {
	switch {
	case !m.matchesURL(req):
		return fmt.Sprintf("the URL is %s, want %s", req.URL, m.URL.Source)
	case m.Method.Source != "" && !m.Method.matches(req.Method):
		return fmt.Sprintf("the method is %s, want %s", req.Method, m.Method.Source)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		value := strings.Join(req.Header.Values(name), ", ")
		if strings.EqualFold(name, "Host") {
			value = cmp.Or(req.Host, req.URL.Host)
		}
		if want := m.Headers[name]; !want.matches(value) {
			return fmt.Sprintf("the header %s is %q, want %s", name, value, want.Source)
		}
	}
	if m.Body != nil && !m.Body.matches(body) {
		return fmt.Sprintf("the body is %s, want %s", quote(body), m.Body)
	}
	return ""
}

// matchesURL compares the URL in each way to spell it.
func (m *Match) matchesURL(req *http.Request) bool {
	if m.URL.Source == "" {
		return true
	}
	u := *req.URL
	if m.URL.matches(u.RequestURI()) || m.URL.matches(u.String()) {
		return true
	}
	u.Host = strings.TrimSuffix(u.Host, map[string]string{"http": ":80", "https": ":443"}[u.Scheme])
	return m.URL.matches(u.String())
}

func (b *Body) matches(body []byte) bool {
	switch {
	case b.JSON != nil:
		var got, want any
		return json.Unmarshal(body, &got) == nil && json.Unmarshal(b.JSON, &want) == nil && reflect.DeepEqual(got, want)
	case b.Data != nil:
		return bytes.Equal(b.Data, body)
	default:
		return b.Text.matches(string(body))
	}
}

func (b *Body) String() string {
	return cmp.Or(string(b.JSON), b.Text.Source, fmt.Sprintf("hex %x", b.Data))
}

func (m *Match) String() string {
	text := []string{cmp.Or(m.Method.Source, "of any method"), cmp.Or(m.URL.Source, "of any URL")}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		text = append(text, fmt.Sprintf("%s: %s", name, m.Headers[name].Source))
	}
	if m.Body != nil {
		text = append(text, "with the body "+m.Body.String())
	}
	return strings.Join(text, " ")
}

// matchBytes holds what has come over a connection against m, as [Recv] does.
func (m *Match) matchBytes(data []byte) (n int, done bool, err error) {
	from := bytes.NewReader(data)
	buffered := bufio.NewReaderSize(from, len(data)+16) // 16 is the least that it takes
	req, err := http.ReadRequest(buffered)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("%w: %s", err, quote(data))
	}
	body, err := bodyOf(req)
	if err != nil {
		return 0, false, nil // the rest of it is to come
	}
	req.URL.Scheme, req.URL.Host = "http", req.Host
	difference := m.differs(req, body)
	req.URL.Scheme = "https"
	if difference != "" && m.differs(req, body) != "" {
		return 0, false, errors.New(difference)
	}
	return len(data) - from.Len() - buffered.Buffered(), true, nil
}

// page is the body of an answer; it is read without a goroutine, since it tells when it
// is ready.
type page struct{ inbox }

// reply returns the answer of an exchange.
func (n *network) reply(req *http.Request, x *Exchange, state *tls.ConnectionState) *http.Response {
	r := &x.Reply
	body := &page{}
	resp := &http.Response{
		Status:     fmt.Sprintf("%d %s", r.Status, http.StatusText(r.Status)),
		StatusCode: r.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: r.Headers.Clone(), Body: body, ContentLength: int64(len(r.Body)), Request: req, TLS: state,
	}
	if resp.Header == nil {
		resp.Header = http.Header{}
	}
	now := n.clock.Now()
	switch {
	case req.Method == http.MethodHead:
		body.arrive(nil, io.EOF)
	case resp.Header.Get("Location") != "": // net/http reads it before it follows
		body.arrive(r.Body, io.EOF)
	default:
		n.trickle(req.Context(), body, r, now)
	}
	return resp
}

// trickle has a body arrive as the reply says.
func (n *network) trickle(ctx context.Context, body *page, r *Reply, now time.Time) {
	ends := map[Behaviour]error{"": io.EOF, ResetNow: syscall.ECONNRESET, HalfOpen: nil}
	if r.Every == 0 {
		body.arrive(r.Body, ends[r.End])
	} else {
		for i := range r.Body {
			now = now.Add(r.Every)
			n.clock.at(now, func() { body.arrive(r.Body[i:i+1], nil) })
		}
		n.clock.at(now, func() { body.arrive(nil, ends[r.End]) })
	}
	if n.native {
		context.AfterFunc(ctx, func() { body.arrive(nil, ctx.Err()) })
	}
}

// leftWeb says which exchanges never came to pass.
func (n *network) leftWeb() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var left []string
	for _, x := range n.web {
		if x.answered == 0 {
			left = append(left, fmt.Sprintf("%s: nobody asks for %s", n.line(x.Line), &x.Match))
		}
	}
	return left
}
