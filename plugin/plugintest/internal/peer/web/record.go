package web

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/daeace23/prober/plugin/plugintest/internal/capture"
	"github.com/daeace23/prober/plugin/plugintest/internal/cert"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer/httpmatch"
)

// Record implements [peer.Protocol]. It takes connections that the host made for requests.
func (Protocol) Record(a *capture.Attempt, conns []*capture.Summary) (peer.Peers, []*capture.Summary) {
	list, rest := capture.Take(a, conns, describe)
	return &exchanges{list: list}, rest
}

// describe returns the exchange of a connection; false if it is none.
func describe(c *capture.Summary, a *capture.Attempt) (x Exchange, ok bool) {
	if !c.HTTP {
		return x, false
	}
	asked, answered, latency := exchanged(c)
	x = Exchange{Behaviour: peer.BehaviourOf(c.Err), TLS: c.TLS}
	x.Reply.Latency = capture.Rounded(latency)
	req, body, _ := httpmatch.Request(asked)
	if req == nil {
		// It failed before the request was sent, so the URL is unknown.
		return x, c.Err != nil || c.TLS != nil && c.TLS.Error != ""
	}
	x.Match = httpmatch.Of(req, body, requestURL(c, a, req))
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answered)), req)
	if err != nil {
		x.Behaviour = silence(c, answered)
		return x, true
	}
	x.Reply.head(resp)
	content, err := io.ReadAll(resp.Body)
	x.Reply.Body = content
	if err != nil || c.Dropped > 0 {
		x.Reply.End = peer.HalfOpen
		if c.Has(capture.Reset) || c.Has(capture.Ended) {
			x.Reply.End = peer.Reset
		}
	}
	if c.Dropped > 0 {
		x.note = "the rest of this answer was left out"
	}
	return x, true
}

// exchanged returns all sent and received bytes, and the time until the answer.
func exchanged(c *capture.Summary) (asked, answered []byte, latency time.Duration) {
	latency = c.Latency
	for _, e := range c.Events {
		switch {
		case e.Kind == capture.Sent:
			asked = append(asked, e.Data...)
		case e.Kind == capture.Received:
			if len(answered) == 0 {
				latency = e.At.Sub(c.Begun)
			}
			answered = append(answered, e.Data...)
		}
	}
	return asked, answered, latency
}

// silence returns the behaviour of a server that gave no answer.
func silence(c *capture.Summary, answered []byte) peer.Behaviour {
	switch {
	case len(answered) > 0:
		return peer.Garbage
	case c.Has(capture.Reset) || c.Has(capture.Ended):
		return peer.Reset
	default:
		return peer.HalfOpen
	}
}

// requestURL returns the URL of a request in the form of a test file: only the path if the server is
// the target.
func requestURL(c *capture.Summary, a *capture.Attempt, req *http.Request) string {
	scheme := "http"
	if c.TLS != nil {
		scheme = "https"
	}
	at, ok := c.AddrPort()
	if ok && int(at.Port()) == a.Target.Port && (a.Target.Host == at.Addr().String() || slices.Contains(a.Names[a.Target.Host], at.Addr().Unmap())) {
		return req.URL.RequestURI()
	}
	return scheme + "://" + req.Host + req.URL.RequestURI()
}

// head sets the status and the headers of an answer.
func (r *Reply) head(resp *http.Response) {
	r.Status, r.Headers = resp.StatusCode, make(http.Header)
	for name, values := range resp.Header {
		switch {
		case httpmatch.IsIgnored(name):
		case httpmatch.IsSecret(name):
			r.Headers[name] = []string{"hidden"}
		default:
			r.Headers[name] = slices.Clone(values)
		}
	}
}

// Redact implements [peer.Peers].
func (e *exchanges) Redact(text func(string) string) {
	for i := range e.list {
		x := &e.list[i]
		x.Match.Redact(text)
		x.Reply.Body = httpmatch.RedactBytes(x.Reply.Body, text)
		for _, values := range x.Reply.Headers {
			for k := range values {
				values[k] = text(values[k])
			}
		}
	}
}

type exchangeDoc struct {
	Match     httpmatch.Doc  `yaml:"match"`
	Behaviour peer.Behaviour `yaml:"behaviour,omitempty"`
	TLS       *cert.Doc      `yaml:"tls,omitempty,flow"`
	Reply     replyDoc       `yaml:"reply,omitempty"`
}

type replyDoc struct {
	Status  int            `yaml:"status,omitempty"`
	Headers map[string]any `yaml:"headers,omitempty"` // a text, or a list
	Body    any            `yaml:"body,omitempty"`    // a text, or field.Data
	End     peer.Behaviour `yaml:"end,omitempty"`
	Latency time.Duration  `yaml:"latency,omitempty"`
}

// Doc implements [peer.Peers].
func (e *exchanges) Doc() (any, error) {
	if len(e.list) == 0 {
		return nil, nil
	}
	var docs []field.Commented
	for i := range e.list {
		x := &e.list[i]
		doc := exchangeDoc{x.Match.Doc(), x.Behaviour, x.TLS.Doc(), replyDoc{Latency: x.Reply.Latency}}
		if x.Behaviour == "" {
			doc.Reply = x.Reply.doc()
		}
		docs = append(docs, field.Commented{Value: doc, Comment: x.note})
	}
	return field.CommentedList(docs)
}

func (r *Reply) doc() replyDoc {
	doc := replyDoc{Status: r.Status, Headers: make(map[string]any), End: r.End, Latency: r.Latency}
	for name, values := range r.Headers {
		if doc.Headers[name] = field.List(values); len(values) == 1 {
			doc.Headers[name] = field.Text(values[0])
		}
	}
	switch {
	case len(r.Body) == 0:
	case field.IsText(r.Body):
		doc.Body = field.Text(r.Body)
	default:
		doc.Body = field.Data(r.Body)
	}
	return doc
}
