package plugintest

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// encodeSession writes a recorded case as a file of the kind PluginSession.
func encodeSession(c *Case, at time.Time, said string) ([]byte, error) {
	doc := &fields{}
	doc.text("apiVersion", plugin.APIVersion)
	doc.text("kind", sessionKind)
	doc.text("recorded", at.UTC().Format(time.RFC3339))
	doc.text("timeout", c.Timeout.String())
	if len(c.Grants) > 0 {
		grants := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, g := range c.Grants {
			grants.Content = append(grants.Content, scalar(g.String()))
		}
		doc.add("grants", grants)
	}
	request, err := encodeRequest(c)
	if err != nil {
		return nil, err
	}
	doc.add("request", request)
	doc.add("host", encodeHost(c))
	want := &fields{}
	want.text("result", c.Want.Result)
	want.node().Style = yaml.FlowStyle
	want.LineComment = strings.Join(strings.FieldsFunc(said, func(r rune) bool { return unicode.IsControl(r) }), " ")
	doc.add("want", want.node())
	var b bytes.Buffer
	b.WriteString("# What a plugin saw, to be replayed by a case: see replay in its test file.\n")
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(doc.node()); err != nil {
		return nil, err
	}
	return b.Bytes(), enc.Close()
}

// fields is a mapping that is being written; what is zero is left out.
type fields yaml.Node

func (f *fields) node() *yaml.Node {
	f.Kind = yaml.MappingNode
	return (*yaml.Node)(f)
}

func (f *fields) add(name string, value *yaml.Node) {
	f.Content = append(f.Content, scalar(name), value)
}

func (f *fields) text(name, value string) {
	if value != "" {
		f.add(name, scalar(value))
	}
}

func (f *fields) number(name string, value int) {
	if value != 0 {
		f.add(name, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.Itoa(value)})
	}
}

func (f *fields) duration(name string, value time.Duration) {
	if value != 0 {
		f.text(name, value.String())
	}
}

func (f *fields) mapping(name string, value *fields) {
	if len(value.Content) > 0 {
		f.add(name, value.node())
	}
}

func (f *fields) list(name string, items []*yaml.Node) {
	if len(items) > 0 {
		f.add(name, &yaml.Node{Kind: yaml.SequenceNode, Content: items})
	}
}

func scalar(text string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(text)
	if strings.ContainsAny(text, "\n\r\t") {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

func encodeRequest(c *Case) (*yaml.Node, error) {
	f := &fields{}
	if c.Kind != probe.Liveness {
		f.text("kind", c.Kind.String())
	}
	if c.Attempt > 1 {
		f.number("attempt", c.Attempt)
	}
	if c.LastResult != probe.Unknown {
		f.text("lastResult", c.LastResult.String())
	}
	target := &fields{Style: yaml.FlowStyle}
	target.text("host", c.Target.Host)
	target.number("port", c.Target.Port)
	target.text("unix", c.Target.Unix)
	f.mapping("target", target)
	f.text("podIP", c.PodIP)
	pod := &fields{Style: yaml.FlowStyle}
	pod.text("namespace", c.Pod.Namespace)
	pod.text("name", c.Pod.Name)
	pod.text("uid", c.Pod.UID)
	labels := &fields{Style: yaml.FlowStyle}
	for _, name := range slices.Sorted(maps.Keys(c.Pod.Labels)) {
		labels.add(name, scalar(c.Pod.Labels[name]))
	}
	pod.mapping("labels", labels)
	f.mapping("pod", pod)
	container := &fields{Style: yaml.FlowStyle}
	container.text("name", c.Container.Name)
	f.mapping("container", container)
	if len(c.Config) > 0 && string(c.Config) != "{}" {
		config, err := fromJSON(c.Config)
		if err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
		f.add("config", config)
	}
	return f.node(), nil
}

// fromJSON reads JSON, which is YAML.
func fromJSON(doc []byte) (*yaml.Node, error) {
	var n yaml.Node
	if err := yaml.Unmarshal(doc, &n); err != nil {
		return nil, err
	}
	unquote(n.Content[0])
	return n.Content[0], nil
}

// unquote leaves out the quotes that YAML can do without.
func unquote(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		*n = *scalar(n.Value)
	}
	for _, child := range n.Content {
		unquote(child)
	}
}

func encodeHost(c *Case) *yaml.Node {
	host := &fields{}
	names := &fields{}
	for _, name := range slices.Sorted(maps.Keys(c.Names)) {
		addrs := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, addr := range c.Names[name] {
			addrs.Content = append(addrs.Content, scalar(addr.String()))
		}
		names.add(name, addrs)
	}
	host.mapping("names", names)
	host.list("net", each(c.Peers, encodePeer))
	host.list("http", each(c.Web, encodeExchange))
	host.list("dns", each(c.Zone, encodeRecord))
	return host.node()
}

func each[T any](items []T, encode func(*T) *fields) (nodes []*yaml.Node) {
	for i := range items {
		nodes = append(nodes, encode(&items[i]).node())
	}
	return nodes
}

func encodePeer(p *Peer) *fields {
	f := &fields{HeadComment: p.note}
	f.text("dial", p.Dial)
	f.text("behaviour", string(p.Behaviour))
	f.duration("latency", p.Latency)
	f.tls(p.TLS)
	f.list("script", each(p.Script, encodeStep))
	return f
}

func (f *fields) tls(t *TLS) {
	if t == nil {
		return
	}
	shown := &fields{Style: yaml.FlowStyle}
	if len(t.Names) > 0 {
		names := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, name := range t.Names {
			names.Content = append(names.Content, scalar(name))
		}
		shown.add("names", names)
	}
	shown.duration("notBefore", t.NotBefore)
	shown.duration("notAfter", t.NotAfter)
	shown.text("error", t.Error)
	f.mapping("tls", shown)
}

func encodeStep(s *Step) *fields {
	f := &fields{}
	none := func() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle} }
	switch {
	case s.Recv != nil && s.Recv.HTTP != nil:
		f.add("recv", (&fields{Content: []*yaml.Node{scalar("http"), encodeMatch(s.Recv.HTTP).node()}}).node())
	case s.Recv != nil && s.Recv.Exact == nil:
		f.add("recv", prefixOf(s.Recv.Prefix))
	case s.Recv != nil:
		f.add("recv", spelt(s.Recv.Exact))
	case s.Send != nil:
		f.add("send", spelt(s.Send.Data))
	case s.Handshake:
		f.add("handshake", none())
	case s.Close:
		f.add("close", none())
	case s.Reset:
		f.add("reset", none())
	default:
		f.duration("wait", s.Wait)
	}
	return f
}

// prefixOf is {prefix: …}.
func prefixOf(data []byte) *yaml.Node {
	return (&fields{Content: []*yaml.Node{scalar("prefix"), spelt(data)}}).node()
}

const hexLine = 40 // bytes

// spelt is {text: …} where data is one, and {hex: …} where it is not.
func spelt(data []byte) *yaml.Node {
	f := &fields{Style: yaml.FlowStyle}
	if isText(data) {
		f.add("text", scalar(string(data)))
		return f.node()
	}
	n := scalar(hex.EncodeToString(data))
	if len(data) > hexLine {
		var lines []string
		for line := range slices.Chunk(data, hexLine) {
			lines = append(lines, hex.EncodeToString(line))
		}
		n = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.LiteralStyle, Value: strings.Join(lines, "\n")}
		f.Style = 0 // a flow has no such block
	}
	f.add("hex", n)
	return f.node()
}

// isText reports whether people can read data.
func isText(data []byte) bool {
	return utf8.Valid(data) && !bytes.ContainsFunc(data, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' || r == utf8.RuneError || r == '\uFEFF'
	})
}

// literal spells a text that is to be matched exactly.
func literal(text string) string {
	if len(text) > 1 && text[0] == '/' && text[len(text)-1] == '/' {
		return "/^" + regexp.QuoteMeta(text) + "$/"
	}
	return text
}

func encodeExchange(x *Exchange) *fields {
	f := &fields{HeadComment: x.note}
	f.add("match", encodeMatch(&x.Match).node())
	f.text("behaviour", string(x.Behaviour))
	f.tls(x.TLS)
	reply := &fields{}
	if x.Behaviour == "" {
		reply.number("status", x.Reply.Status)
		headers := &fields{}
		for _, name := range slices.Sorted(maps.Keys(x.Reply.Headers)) {
			values := x.Reply.Headers[name]
			if len(values) == 1 {
				headers.add(name, scalar(values[0]))
				continue
			}
			list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
			for _, value := range values {
				list.Content = append(list.Content, scalar(value))
			}
			headers.add(name, list)
		}
		reply.mapping("headers", headers)
		switch {
		case len(x.Reply.Body) == 0:
		case isText(x.Reply.Body):
			reply.text("body", string(x.Reply.Body))
		default:
			reply.add("body", spelt(x.Reply.Body))
		}
		reply.text("end", string(x.Reply.End))
	}
	reply.duration("latency", x.Reply.Latency)
	f.mapping("reply", reply)
	return f
}

func encodeMatch(m *Match) *fields {
	f := &fields{}
	f.text("method", m.Method.Source)
	f.text("url", m.URL.Source)
	headers := &fields{Style: yaml.FlowStyle}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		headers.add(name, scalar(m.Headers[name].Source))
	}
	f.mapping("headers", headers)
	if m.Body == nil {
		return f
	}
	body := &fields{}
	if doc, err := fromJSON(m.Body.JSON); m.Body.JSON != nil && err == nil {
		body.add("json", doc)
	} else if isText(m.Body.Data) {
		body.text("text", literal(string(m.Body.Data)))
	} else {
		body.add("hex", scalar(hex.EncodeToString(m.Body.Data)))
	}
	f.mapping("body", body)
	return f
}

func encodeRecord(r *Record) *fields {
	f := &fields{}
	f.text("name", r.Name)
	f.text("type", typeName(r.Type))
	f.text("server", r.Server)
	f.text("behaviour", string(r.Behaviour))
	if r.RCode != dnsmessage.RCodeSuccess {
		f.text("rcode", rcodeName(r.RCode))
	}
	f.duration("latency", r.Latency)
	f.list("answers", each(r.Answers, func(a *dnsmessage.Resource) *fields {
		answer := &fields{Style: yaml.FlowStyle}
		if name := strings.TrimSuffix(a.Header.Name.String(), "."); canonical(name) != canonical(r.Name) {
			answer.text("name", name)
		}
		if a.Header.Type != r.Type {
			answer.text("type", typeName(a.Header.Type))
		}
		answer.add("ttl", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: fmt.Sprint(a.Header.TTL)})
		answer.text("data", dataOf(a.Body))
		return answer
	}))
	return f
}

func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}
