package socket

import (
	"fmt"
	"net"
	"time"

	"github.com/daeace23/prober/plugin/plugintest/internal/capture"
	"github.com/daeace23/prober/plugin/plugintest/internal/cert"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer/httpmatch"
)

// Record implements [peer.Protocol]. It takes every connection.
func (Protocol) Record(a *capture.Attempt, conns []*capture.Summary) (peer.Peers, []*capture.Summary) {
	s := &servers{}
	for _, c := range conns {
		s.list = append(s.list, describe(c, a))
	}
	return s, nil
}

// describe returns the server of a connection.
func describe(c *capture.Summary, a *capture.Attempt) Server {
	s := Server{Dial: urlOf(c, a), Behaviour: peer.BehaviourOf(c.Err), Latency: capture.Rounded(c.Latency), TLS: c.TLS}
	switch {
	case c.Err != nil:
		s.TLS = nil
		s.note = c.Err.Error()
		if s.Behaviour == peer.Reset {
			s.Behaviour = peer.Refuse
		}
		if s.Behaviour == peer.Timeout {
			s.Latency = 0
		}
	case len(c.Events) > 0 && c.Events[len(c.Events)-1].Kind == capture.Unreachable:
		s.Behaviour = peer.Refuse
	default:
		s.Script = script(c, a.Random)
	}
	if c.Dropped > 0 {
		s.note = fmt.Sprintf("%d more bytes of this connection were left out", c.Dropped)
	}
	if len(c.Events) > 0 && c.Events[0].Kind == capture.Sent && startsTLS(c.Events[0].Data) {
		s.note = "the plugin makes the TLS of this connection itself, which is another each time: it cannot be replayed"
	}
	return s
}

func startsTLS(data []byte) bool {
	return len(data) > 2 && data[0] == recordHandshake && data[1] == recordMajor
}

// urlOf returns the URL of a connection's server, in the form of a test file.
func urlOf(c *capture.Summary, a *capture.Attempt) string {
	scheme := c.Network
	if c.TLS != nil && len(c.Events) > 0 && c.Events[0].Kind == capture.Handshake {
		scheme = "tls"
	}
	at, ok := c.AddrPort()
	if !ok {
		return scheme + "://" + c.Addr
	}
	return scheme + "://" + net.JoinHostPort(a.Host(at.Addr().Unmap()), fmt.Sprint(at.Port()))
}

// script returns the actions of the server as steps. It adds a wait where the server took longer than
// the latency of the connection. The plugin has read random, of which answers may have parts.
func script(c *capture.Summary, random [][]byte) (steps []Step) {
	last := c.Begun.Add(c.Latency)
	found := findNonces(c, random)
	for i, e := range c.Events {
		took := e.At.Sub(last) - c.Latency
		last = e.At
		if e.Kind == capture.Received && took >= time.Millisecond {
			steps = append(steps, Step{Wait: capture.Rounded(took)})
		}
		switch e.Kind {
		case capture.Sent:
			steps = append(steps, found.receive(c, i)...)
		case capture.Received:
			steps = append(steps, Step{Send: &Send{Data: &Message{data: e.Data, captured: found.sent[i]}}})
		case capture.Handshake:
			if i > 0 {
				steps = append(steps, Step{Handshake: true})
			}
		case capture.Ended:
			steps = append(steps, Step{Close: true})
		case capture.Reset:
			steps = append(steps, Step{Reset: true})
		}
	}
	return steps
}

// recv returns the step that receives data: an HTTP request by its meaning, other data by its bytes.
func recv(c *capture.Summary, i int) *Recv {
	data := c.Events[i].Data
	if req, body, rest := httpmatch.Request(data); req != nil && rest == 0 && c.Network != "udp" {
		m := httpmatch.Of(req, body, req.URL.RequestURI())
		return &Recv{HTTP: &m}
	}
	if c.Dropped > 0 && i == len(c.Events)-1 {
		return &Recv{Prefix: &Message{data: data}}
	}
	return &Recv{Exact: &Message{data: data}}
}

// Redact implements [peer.Peers].
func (s *servers) Redact(text func(string) string) {
	for i := range s.list {
		one := &s.list[i]
		one.note = text(one.note)
		for j := range one.Script {
			one.Script[j].redact(text)
		}
	}
}

func (s *Step) redact(text func(string) string) {
	switch {
	case s.Send != nil:
		s.Send.Data.redact(text)
	case s.Recv == nil:
	case s.Recv.HTTP != nil:
		s.Recv.HTTP.Redact(text)
	default:
		s.Recv.Exact.redact(text)
		s.Recv.Prefix.redact(text)
	}
}

type serverDoc struct {
	Dial      field.Text     `yaml:"dial"`
	Behaviour peer.Behaviour `yaml:"behaviour,omitempty"`
	Latency   time.Duration  `yaml:"latency,omitempty"`
	TLS       *cert.Doc      `yaml:"tls,omitempty,flow"`
	Script    []stepDoc      `yaml:"script,omitempty"`
}

type stepDoc struct {
	Recv      *recvDoc      `yaml:"recv,omitempty"`
	Send      *Message      `yaml:"send,omitempty"`
	Handshake *struct{}     `yaml:"handshake,omitempty"`
	Close     *struct{}     `yaml:"close,omitempty"`
	Reset     *struct{}     `yaml:"reset,omitempty"`
	Wait      time.Duration `yaml:"wait,omitempty"`
}

type recvDoc struct{ *Recv }

// MarshalYAML implements yaml.Marshaler.
func (d recvDoc) MarshalYAML() (any, error) {
	switch {
	case d.HTTP != nil:
		return struct{ HTTP httpmatch.Doc }{d.HTTP.Doc()}, nil
	case d.Length > 0:
		return field.Flow(struct {
			Length int
			As     string
		}{d.Length, d.As})
	case d.Exact == nil:
		return struct{ Prefix *Message }{d.Prefix}, nil
	default:
		return d.Exact.MarshalYAML()
	}
}

// Doc implements [peer.Peers].
func (s *servers) Doc() (any, error) {
	if len(s.list) == 0 {
		return nil, nil
	}
	var docs []field.Commented
	for i := range s.list {
		one := &s.list[i]
		doc := serverDoc{Dial: field.Text(one.Dial), Behaviour: one.Behaviour, Latency: one.Latency, TLS: one.TLS.Doc()}
		for j := range one.Script {
			doc.Script = append(doc.Script, one.Script[j].doc())
		}
		docs = append(docs, field.Commented{Value: doc, Comment: one.note})
	}
	return field.CommentedList(docs)
}

func (s *Step) doc() (doc stepDoc) {
	is := func(set bool) *struct{} {
		if set {
			return &struct{}{}
		}
		return nil
	}
	doc.Handshake, doc.Close, doc.Reset, doc.Wait = is(s.Handshake), is(s.Close), is(s.Reset), s.Wait
	if s.Recv != nil {
		doc.Recv = &recvDoc{s.Recv}
	}
	if s.Send != nil {
		doc.Send = s.Send.Data
	}
	return doc
}
