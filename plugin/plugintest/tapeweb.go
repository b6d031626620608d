package plugintest

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// withBody returns the request with a body that is still to be read.
func withBody(req *http.Request, body []byte) *http.Request {
	with := *req
	with.Body = http.NoBody
	if len(body) > 0 {
		with.Body = io.NopCloser(bytes.NewReader(body))
	}
	return &with
}

// requestIn reads a request of HTTP/1 that data begins with, and how much is behind it.
func requestIn(data []byte) (req *http.Request, body []byte, rest int) {
	from := bytes.NewReader(data)
	buffered := bufio.NewReader(from)
	req, err := http.ReadRequest(buffered)
	if err != nil {
		return nil, nil, 0
	}
	if body, err = bodyOf(req); err != nil {
		return nil, nil, 0
	}
	return req, body, from.Len() + buffered.Buffered()
}

// Headers that are no part of what a request or an answer means, and those that hold
// secrets.
var (
	idle    = []string{"User-Agent", "Accept-Encoding", "Content-Length", "Connection", "Transfer-Encoding", "Te"}
	private = []string{"Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie"}
)

// matchOf is what a request means.
func matchOf(req *http.Request, body []byte, url string) Match {
	m := Match{Method: Text{Source: req.Method}, URL: Text{Source: literal(url)}, Headers: make(map[string]Text)}
	for name, values := range req.Header {
		if !slices.Contains(idle, name) && !slices.Contains(private, name) {
			m.Headers[name] = Text{Source: literal(strings.Join(values, ", "))}
		}
	}
	switch {
	case len(body) == 0:
	case json.Valid(body):
		m.Body = &Body{JSON: body}
	default:
		m.Body = &Body{Data: body}
	}
	return m
}

const leftOut = "of this answer more was left out"

// describeWeb adds a hop of HTTP, and reports whether it is one.
func (t *tape) describeWeb(c *Case) bool {
	asked, answered, latency := t.exchanged()
	x := Exchange{Behaviour: behaviourOf(t.err), TLS: t.tls}
	x.Reply.Latency = rounded(latency)
	x.Match.URL.Source = strings.Replace(t.url(c), t.network+"://", "http://", 1) + "/"
	req, body, _ := requestIn(asked)
	if req == nil {
		if t.err == nil && (t.tls == nil || t.tls.Error == "") {
			return false
		}
		x.Match.URL.Source = "" // it was not asked for
		c.Web = append(c.Web, x)
		return true
	}
	x.Match = matchOf(req, body, t.pageURL(c, req))
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answered)), req)
	if err != nil {
		x.Behaviour = t.silence(answered)
		c.Web = append(c.Web, x)
		return true
	}
	x.replied(resp)
	content, err := io.ReadAll(resp.Body)
	x.Reply.Body = content
	if err != nil || t.cut > 0 {
		x.Reply.End = cmp.Or(map[bool]Behaviour{true: ResetNow}[t.has(reset) || t.has(ended)], HalfOpen)
	}
	if t.cut > 0 {
		x.note = leftOut
	}
	c.Web = append(c.Web, x)
	return true
}

// exchanged is all that was sent and received, and how long the answer took.
func (t *tape) exchanged() (asked, answered []byte, latency time.Duration) {
	latency = t.latency
	for _, m := range t.marks {
		switch {
		case m.what == sent:
			asked = append(asked, m.data...)
		case m.what == received:
			if len(answered) == 0 {
				latency = m.at.Sub(t.begun)
			}
			answered = append(answered, m.data...)
		}
	}
	return asked, answered, latency
}

func (t *tape) has(what happening) bool {
	return slices.ContainsFunc(t.marks, func(m mark) bool { return m.what == what })
}

// silence is what a server does that gives no answer.
func (t *tape) silence(answered []byte) Behaviour {
	switch {
	case len(answered) > 0:
		return Garbage
	case t.has(reset) || t.has(ended):
		return ResetNow
	default:
		return HalfOpen
	}
}

// pageURL is how a file spells the URL of a request: of the target's by the path alone.
func (t *tape) pageURL(c *Case, req *http.Request) string {
	scheme := "http"
	if t.tls != nil {
		scheme = "https"
	}
	at, err := netip.ParseAddrPort(t.addr)
	if err == nil && int(at.Port()) == c.Target.Port && (c.Target.Host == at.Addr().String() || slices.Contains(c.Names[c.Target.Host], at.Addr().Unmap())) {
		return req.URL.RequestURI()
	}
	return scheme + "://" + req.Host + req.URL.RequestURI()
}

// replied notes the head of an answer.
func (x *Exchange) replied(resp *http.Response) {
	x.Reply.Status, x.Reply.Headers = resp.StatusCode, make(http.Header)
	for name, values := range resp.Header {
		switch {
		case slices.Contains(idle, name):
		case slices.Contains(private, name):
			x.Reply.Headers[name] = []string{"hidden"}
		default:
			x.Reply.Headers[name] = slices.Clone(values)
		}
	}
}

// heard is an exchange whose answer is still to be read.
type heard struct {
	Exchange
	io.ReadCloser
	recorder *Recorder

	mu   sync.Mutex
	data []byte
	cut  int
}

// Read implements [io.Reader].
func (h *heard) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	h.mu.Lock()
	defer h.mu.Unlock()
	room := h.recorder.take(min(n, maxTape-len(h.data)))
	h.data, h.cut = append(h.data, p[:room]...), h.cut+n-room
	return n, err
}

// heardReadily is one that tells when it can be read.
type heardReadily struct{ *heard }

// Ready reports whether a Read returns at once: see handlers/wasm.
func (h heardReadily) Ready() bool {
	return h.ReadCloser.(interface{ Ready() bool }).Ready()
}

// exchange is what was heard.
func (h *heard) exchange() Exchange {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.Exchange
	if x.Behaviour == "" {
		x.Reply.Body = h.data
	}
	if h.cut > 0 {
		x.note = leftOut
	}
	return x
}

// describeDNS adds a look-up, and reports whether it is one.
func (t *tape) describeDNS(c *Case) bool {
	question, answer, latency := t.lookup()
	var asked, answered dnsmessage.Message
	if asked.Unpack(question) != nil || asked.Response || len(asked.Questions) != 1 || !known(asked.Questions[0].Type) {
		return false
	}
	at, err := netip.ParseAddrPort(t.addr)
	if err != nil {
		return false
	}
	r := Record{Name: strings.TrimSuffix(asked.Questions[0].Name.String(), "."), Type: asked.Questions[0].Type, Latency: latency}
	switch {
	case slices.Contains(t.recorder.servers, t.addr):
	case at.Addr().String() == c.Target.Host && int(at.Port()) == c.Target.Port:
		r.Server = "target"
	case at.Port() != 53:
		r.Server = net.JoinHostPort(nameOf(c, at.Addr().Unmap()), strconv.Itoa(int(at.Port())))
	}
	err = answered.Unpack(answer)
	switch {
	case answer == nil && t.has(unreachable):
		r.Behaviour = Refuse
	case answer == nil && t.has(reset):
		r.Behaviour = ResetNow
	case answer == nil:
		r.Behaviour, r.Latency = Timeout, 0
	case err != nil || !answered.Response || answered.ID != asked.ID:
		return false
	case answered.Truncated:
		r.Behaviour = Truncate
	default:
		r.RCode = answered.RCode
		r.Answers = slices.DeleteFunc(answered.Answers, func(a dnsmessage.Resource) bool { return dataOf(a.Body) == "" })
	}
	c.Zone = append(c.Zone, r)
	return true
}

// lookup is what was asked last and answered first, if it is a look-up.
func (t *tape) lookup() (question, answer []byte, latency time.Duration) {
	for _, m := range t.marks {
		switch {
		case m.what == sent:
			question = m.data
		case m.what == received && answer == nil:
			answer, latency = m.data, rounded(m.at.Sub(t.begun))
		}
	}
	if t.network == "tcp" {
		question, answer = unframed(question), unframed(answer)
	}
	return question, answer, latency
}

func unframed(data []byte) []byte {
	if len(data) < 2 || len(data) < 2+int(binary.BigEndian.Uint16(data)) {
		return nil
	}
	return data[2 : 2+int(binary.BigEndian.Uint16(data))]
}

func known(t dnsmessage.Type) bool {
	for _, other := range recordTypes {
		if t == other {
			return true
		}
	}
	return false
}
