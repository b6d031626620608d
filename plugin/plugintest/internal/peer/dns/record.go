// Package dns has the peers of host.dns: DNS servers that answer with records. Read record.go
// first, then play.go; zonefile.go has the text form of records.
package dns

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/daeace23/prober/internal/shape"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/capture"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
)

// Truncate is a behaviour of records only: the answer does not fit into UDP, and the plugin must
// repeat the question over TCP.
const Truncate peer.Behaviour = "truncate"

// Record is an answer to one question. If several records are for one question, each answers once,
// in order, and the last one answers from then on.
type Record struct {
	Line      int
	Name      string
	Type      dnsmessage.Type
	Server    string // the only server with this answer: "target" or host:port; "" for every server
	RCode     dnsmessage.RCode
	Answers   []dnsmessage.Resource
	Latency   time.Duration
	Behaviour peer.Behaviour // in place of an answer
}

// Protocol is the protocol of host.dns.
type Protocol struct{}

var _ peer.Protocol = Protocol{}

// records are the records of a case.
type records struct {
	list       []Record
	everywhere peer.Behaviour // of every server; "" for none
}

var _ peer.Peers = (*records)(nil)

// Field implements [peer.Protocol].
func (Protocol) Field() string { return "dns" }

// Everywhere implements [peer.Protocol].
func (Protocol) Everywhere(b peer.Behaviour) peer.Peers { return &records{everywhere: b} }

// Grants implements [peer.Peers].
func (*records) Grants() []string { return nil }

// Redact implements [peer.Peers]: names and records hold no secrets.
func (*records) Redact(func(string) string) {}

// Decode implements [peer.Protocol].
func (Protocol) Decode(r *field.Reader, n *yamlpos.Node, path string) peer.Peers {
	all := &records{}
	r.Items(n, path, func(n *yamlpos.Node, path string) {
		one := Record{Line: n.Line, Type: dnsmessage.TypeA}
		decodeRecord(r, n, path, &one)
		all.list = append(all.list, one)
	})
	return all
}

func decodeRecord(r *field.Reader, n *yamlpos.Node, path string, to *Record) {
	var answers *yamlpos.Node
	readAnswers := func(n *yamlpos.Node, path string) {
		r.Items(n, path, func(n *yamlpos.Node, path string) { decodeAnswer(r, n, path, to) })
	}
	r.Mapping(n, path, yamlpos.Fields{
		"name":      readDomain(r, &to.Name),
		"type":      readOneOf(r, &to.Type, recordTypes),
		"rcode":     readOneOf(r, &to.RCode, rcodes),
		"server":    field.Parsed(r, &to.Server, parseServer),
		"answers":   r.Later(&answers, readAnswers),
		"latency":   r.Duration(&to.Latency),
		"behaviour": peer.DecodeBehaviour(r, &to.Behaviour, append(slices.Clone(peer.Behaviours), Truncate)...),
	}, "name")
	if answers == nil {
		return
	}
	at := yamlpos.Join(path, "answers")
	if to.Behaviour != "" && to.Behaviour != Truncate {
		r.Errorf(answers, at, "a record has a behaviour or answers, not both")
	}
	readAnswers(answers, at)
}

const defaultTTL = 60

// decodeAnswer reads one answer, which may be the data alone.
func decodeAnswer(r *field.Reader, n *yamlpos.Node, path string, to *Record) {
	name, t, ttl, data := to.Name, to.Type, defaultTTL, ""
	if n.Kind == yamlpos.Scalar {
		data, _ = r.Text(n, path)
	} else {
		r.Mapping(n, path, yamlpos.Fields{
			"name": readDomain(r, &name), "type": readOneOf(r, &t, recordTypes), "ttl": r.Int(&ttl, 0, math.MaxInt32), "data": r.String(&data),
		}, "data")
	}
	body, err := resource(t, data)
	if err != nil {
		r.Errorf(n, yamlpos.Join(path, "data"), "%w", err)
		return
	}
	owner, _ := domain(name) // its error was reported before
	head := dnsmessage.ResourceHeader{Name: owner, Type: t, Class: dnsmessage.ClassINET, TTL: uint32(ttl)}
	to.Answers = append(to.Answers, dnsmessage.Resource{Header: head, Body: body})
}

func readDomain(r *field.Reader, to *string) field.Read {
	return field.Parsed(r, to, func(text string) (string, error) {
		_, err := domain(text)
		return text, err
	})
}

func parseServer(text string) (string, error) {
	if text == "target" {
		return text, nil
	}
	_, port, err := net.SplitHostPort(text)
	if number, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil || number == 0 {
		return text, fmt.Errorf("%.80q must be target, or host:port", text)
	}
	return text, nil
}

// readOneOf reads one of the names.
func readOneOf[T any](r *field.Reader, to *T, known map[string]T) field.Read {
	names := slices.Sorted(maps.Keys(known))
	return r.Form(shape.Form{Enum: names}, field.Parsed(r, to, func(text string) (T, error) {
		value, ok := known[text]
		if !ok {
			return value, fmt.Errorf("unknown value %.80q; known: %s", text, strings.Join(names, ", "))
		}
		return value, nil
	}))
}

// Record implements [peer.Protocol]. It takes connections with one question.
func (Protocol) Record(a *capture.Attempt, conns []*capture.Summary) (peer.Peers, []*capture.Summary) {
	list, rest := capture.Take(a, conns, describe)
	return &records{list: list}, rest
}

// describe returns the record of a connection; false if it is no look-up.
func describe(c *capture.Summary, a *capture.Attempt) (r Record, ok bool) {
	question, answer, latency := lookup(c)
	var asked, answered dnsmessage.Message
	if asked.Unpack(question) != nil || asked.Response || len(asked.Questions) != 1 || recordTypes[typeName(asked.Questions[0].Type)] == 0 {
		return r, false
	}
	at, ok := c.AddrPort()
	if !ok {
		return r, false
	}
	r = Record{Name: strings.TrimSuffix(asked.Questions[0].Name.String(), "."), Type: asked.Questions[0].Type, Latency: latency}
	switch {
	case slices.Contains(a.DNSServers, c.Addr):
	case at.Addr().String() == a.Target.Host && int(at.Port()) == a.Target.Port:
		r.Server = "target"
	case at.Port() != 53:
		r.Server = net.JoinHostPort(a.Host(at.Addr().Unmap()), strconv.Itoa(int(at.Port())))
	}
	err := answered.Unpack(answer)
	switch {
	case answer == nil && c.Has(capture.Unreachable):
		r.Behaviour = peer.Refuse
	case answer == nil && c.Has(capture.Reset):
		r.Behaviour = peer.Reset
	case answer == nil:
		r.Behaviour, r.Latency = peer.Timeout, 0
	case err != nil || !answered.Response || answered.ID != asked.ID:
		return r, false
	case answered.Truncated:
		r.Behaviour = Truncate
	default:
		r.RCode = answered.RCode
		r.Answers = slices.DeleteFunc(answered.Answers, func(a dnsmessage.Resource) bool { return dataOf(a.Body) == "" })
	}
	return r, true
}

// lookup returns the last message that was sent and the first that was received.
func lookup(c *capture.Summary) (question, answer []byte, latency time.Duration) {
	for _, e := range c.Events {
		switch {
		case e.Kind == capture.Sent:
			question = e.Data
		case e.Kind == capture.Received && answer == nil:
			answer, latency = e.Data, capture.Rounded(e.At.Sub(c.Begun))
		}
	}
	if c.Network == "tcp" {
		question, answer = unframed(question), unframed(answer)
	}
	return question, answer, latency
}

// unframed returns the first message of a connection of TCP; nil if it is not complete.
func unframed(data []byte) []byte {
	if len(data) < 2 || len(data) < 2+int(binary.BigEndian.Uint16(data)) {
		return nil
	}
	return data[2 : 2+int(binary.BigEndian.Uint16(data))]
}

type recordDoc struct {
	Name      field.Text     `yaml:"name"`
	Type      string         `yaml:"type"`
	Server    field.Text     `yaml:"server,omitempty"`
	Behaviour peer.Behaviour `yaml:"behaviour,omitempty"`
	RCode     string         `yaml:"rcode,omitempty"`
	Latency   time.Duration  `yaml:"latency,omitempty"`
	Answers   []answerDoc    `yaml:"answers,omitempty"`
}

type answerDoc struct {
	Name field.Text `yaml:"name,omitempty"`
	Type string     `yaml:"type,omitempty"`
	TTL  uint32     `yaml:"ttl"`
	Data field.Text `yaml:"data"`
}

// MarshalYAML implements [yaml.Marshaler]: an answer is on one line.
func (a answerDoc) MarshalYAML() (any, error) {
	type plain answerDoc
	return field.Flow(plain(a))
}

// Doc implements [peer.Peers].
func (r *records) Doc() (any, error) {
	if len(r.list) == 0 {
		return nil, nil
	}
	var docs []recordDoc
	for i := range r.list {
		docs = append(docs, r.list[i].doc())
	}
	return docs, nil
}

func (r *Record) doc() recordDoc {
	doc := recordDoc{
		Name: field.Text(r.Name), Type: typeName(r.Type), Server: field.Text(r.Server), Behaviour: r.Behaviour, Latency: r.Latency,
	}
	if r.RCode != dnsmessage.RCodeSuccess {
		doc.RCode = nameOf(rcodes, r.RCode)
	}
	for _, a := range r.Answers {
		answer := answerDoc{TTL: a.Header.TTL, Data: field.Text(dataOf(a.Body))}
		if name := strings.TrimSuffix(a.Header.Name.String(), "."); peer.Canonical(name) != peer.Canonical(r.Name) {
			answer.Name = field.Text(name)
		}
		if a.Header.Type != r.Type {
			answer.Type = typeName(a.Header.Type)
		}
		doc.Answers = append(doc.Answers, answer)
	}
	return doc
}
