// Package web has the peers of host.http, which answer the HTTP requests that the host makes for a
// plugin. Read exchange.go first, then play.go.
package web

import (
	"net/http"
	"time"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/cert"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer/httpmatch"
)

// Exchange is one request and its answer. The first matching exchange that has not answered yet
// answers a request. If all have, the last matching one does.
type Exchange struct {
	Line      int
	Match     httpmatch.Match
	Reply     Reply
	Behaviour peer.Behaviour // in place of the reply, after its latency
	TLS       *cert.Spec     // certificate for an https URL; nil for a valid one

	note string // a comment in the session
}

// Reply is the answer to a request.
type Reply struct {
	Status  int
	Headers http.Header
	Body    []byte
	Latency time.Duration  // until the header of the answer arrives
	Every   time.Duration  // between bytes of the body; 0 for all at once
	End     peer.Behaviour // "reset" or "half-open" in place of the end of the body
}

// Protocol is the protocol of host.http.
type Protocol struct{}

var _ peer.Protocol = Protocol{}

// exchanges are the exchanges of a case.
type exchanges struct {
	list       []Exchange
	everywhere peer.Behaviour // of every server; "" for none
}

var _ peer.Peers = (*exchanges)(nil)

// Field implements [peer.Protocol].
func (Protocol) Field() string { return "http" }

// Everywhere implements [peer.Protocol].
func (Protocol) Everywhere(b peer.Behaviour) peer.Peers { return &exchanges{everywhere: b} }

// Names implements [peer.Peers].
func (*exchanges) Names(*peer.Hosts) {}

// Grants implements [peer.Peers].
func (*exchanges) Grants() []string { return nil }

// Decode implements [peer.Protocol].
func (Protocol) Decode(r *field.Reader, n *yamlpos.Node, path string) peer.Peers {
	e := &exchanges{}
	r.Items(n, path, func(n *yamlpos.Node, path string) {
		x := Exchange{Line: n.Line}
		decodeExchange(r, n, path, &x)
		e.list = append(e.list, x)
	})
	return e
}

func decodeExchange(r *field.Reader, n *yamlpos.Node, path string, x *Exchange) {
	x.Reply.Status = http.StatusOK
	replied := false
	r.Mapping(n, path, yamlpos.Fields{
		"match":     func(n *yamlpos.Node, path string) { httpmatch.Decode(r, n, path, &x.Match) },
		"behaviour": peer.DecodeBehaviour(r, &x.Behaviour, peer.Behaviours...),
		"tls":       cert.Decode(r, &x.TLS),
		"reply": func(n *yamlpos.Node, path string) {
			decodeReply(r, n, path, &x.Reply)
			replied = x.Reply.Latency == 0 || len(n.Content) > 2
		},
	}, "match")
	if x.Behaviour != "" && replied {
		r.Errorf(n, path, "an exchange has a behaviour or a reply, not both; beside a behaviour a reply may have a latency only")
	}
}

func decodeReply(r *field.Reader, n *yamlpos.Node, path string, to *Reply) {
	r.Mapping(n, path, yamlpos.Fields{
		"status": r.Int(&to.Status, 100, 999),
		"headers": func(n *yamlpos.Node, path string) {
			to.Headers = make(http.Header)
			r.Entries(n, path, func(key, value *yamlpos.Node, at string) {
				var values []string
				if value.Kind == yamlpos.List {
					r.Items(value, at, r.Append(&values))
				} else {
					r.Append(&values)(value, at)
				}
				to.Headers[http.CanonicalHeaderKey(key.Value)] = values
			})
		},
		"body": func(n *yamlpos.Node, path string) {
			if n.Kind == yamlpos.Scalar {
				text, _ := r.Text(n, path)
				to.Body = []byte(text)
				return
			}
			fields := r.BytesFields(&to.Body)
			fields["json"] = r.JSON(&to.Body)
			r.One(n, path, fields)
		},
		"latency": r.Duration(&to.Latency),
		"every":   r.Duration(&to.Every),
		"end":     peer.DecodeBehaviour(r, &to.End, peer.Reset, peer.HalfOpen),
	})
}
