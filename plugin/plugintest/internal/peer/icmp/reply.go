// Package icmp has the peers of host.icmp: hosts that reply to echo requests. Read reply.go first, then
// play.go.
package icmp

import (
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/capture"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
)

// Reply is the reply to echo requests to a host. If a host has several, each answers one request, and
// the last one all further requests.
type Reply struct {
	Line      int
	Host      string // "" is the target
	Request   Wanted
	HopLimit  int // of the reply
	Latency   time.Duration
	Error     string         // text of an ICMP error message in place of the reply
	Behaviour peer.Behaviour // in place of the reply
}

// Wanted is a pattern of requests. Unset fields match everything.
type Wanted struct {
	Payload, HopLimit int
	DontFragment      *bool
	SourceAddress     netip.Addr
}

// defaultHopLimit is the hop limit of a reply that sets none.
const defaultHopLimit = 64

// Protocol is the protocol of host.icmp.
type Protocol struct{}

var _ peer.Protocol = Protocol{}

// replies are the replies of a case.
type replies struct {
	list       []Reply
	everywhere peer.Behaviour // of every host; "" for none
}

var _ peer.Peers = (*replies)(nil)

// Field implements [peer.Protocol].
func (Protocol) Field() string { return "icmp" }

// Everywhere implements [peer.Protocol].
func (Protocol) Everywhere(b peer.Behaviour) peer.Peers { return &replies{everywhere: b} }

// Grants implements [peer.Peers].
func (*replies) Grants() []string { return nil }

// Names implements [peer.Peers].
func (*replies) Names(*peer.Hosts) {}

// Redact implements [peer.Peers]: nothing of a request or its reply is secret.
func (*replies) Redact(func(string) string) {}

// Decode implements [peer.Protocol].
func (Protocol) Decode(r *field.Reader, n *yamlpos.Node, path string) peer.Peers {
	all := &replies{}
	r.Items(n, path, func(n *yamlpos.Node, path string) {
		one := Reply{Line: n.Line, HopLimit: defaultHopLimit}
		r.Mapping(n, path, yamlpos.Fields{
			"host":      r.NonEmpty(&one.Host),
			"request":   func(n *yamlpos.Node, path string) { decodeWanted(r, n, path, &one.Request) },
			"hopLimit":  r.Int(&one.HopLimit, 1, 255),
			"latency":   r.Duration(&one.Latency),
			"error":     r.NonEmpty(&one.Error),
			"behaviour": peer.DecodeBehaviour(r, &one.Behaviour, peer.Refuse, peer.Timeout),
		})
		if one.Error != "" && one.Behaviour != "" {
			r.Errorf(n, path, "a host has an error or a behaviour, not both")
		}
		all.list = append(all.list, one)
	})
	return all
}

func decodeWanted(r *field.Reader, n *yamlpos.Node, path string, to *Wanted) {
	r.Mapping(n, path, yamlpos.Fields{
		"payload":  r.Int(&to.Payload, 1, 65_507),
		"hopLimit": r.Int(&to.HopLimit, 1, 255),
		"dontFragment": func(n *yamlpos.Node, path string) {
			to.DontFragment = new(bool)
			r.Bool(to.DontFragment)(n, path)
		},
		"sourceAddress": field.Parsed(r, &to.SourceAddress, netip.ParseAddr),
	})
}

// Record implements [peer.Protocol]. Echo requests have no connections.
func (Protocol) Record(a *capture.Attempt, conns []*capture.Summary) (peer.Peers, []*capture.Summary) {
	all := &replies{}
	for _, e := range a.Echoes {
		one := Reply{HopLimit: e.HopLimit, Latency: capture.Rounded(e.Latency)}
		if one.Host = a.Host(e.Addr); one.Host == a.Target.Host {
			one.Host = ""
		}
		switch {
		case e.Err == nil:
		case peer.BehaviourOf(e.Err) == peer.Timeout:
			one.Behaviour, one.Latency = peer.Timeout, 0
		default:
			one.Error = e.Err.Error()
		}
		all.list = append(all.list, one)
	}
	return all, conns
}

type replyDoc struct {
	Host      field.Text     `yaml:"host,omitempty"`
	HopLimit  int            `yaml:"hopLimit,omitempty"`
	Latency   time.Duration  `yaml:"latency,omitempty"`
	Error     field.Text     `yaml:"error,omitempty"`
	Behaviour peer.Behaviour `yaml:"behaviour,omitempty"`
}

// MarshalYAML implements yaml.Marshaler: a reply is on one line.
func (d replyDoc) MarshalYAML() (any, error) {
	type plain replyDoc
	return field.Flow(plain(d))
}

// Doc implements [peer.Peers].
func (r *replies) Doc() (any, error) {
	if len(r.list) == 0 {
		return nil, nil
	}
	var docs []replyDoc
	for _, one := range r.list {
		docs = append(docs, replyDoc{field.Text(one.Host), one.HopLimit, one.Latency, field.Text(one.Error), one.Behaviour})
	}
	return docs, nil
}

// refused is the error of an ICMP error message.
type refused struct{ text string }

func (e *refused) Error() string { return e.text }

// Unwrap returns the number that the host returns for such a message.
func (e *refused) Unwrap() error {
	for _, known := range []struct {
		text string
		err  error
	}{
		{"network unreachable", syscall.ENETUNREACH}, {"no route", syscall.ENETUNREACH}, {"port unreachable", syscall.ECONNREFUSED},
		{"too big", syscall.EMSGSIZE}, {"too long", syscall.EMSGSIZE},
	} {
		if strings.Contains(e.text, known.text) {
			return known.err
		}
	}
	return syscall.EHOSTUNREACH
}
