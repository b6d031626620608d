package adverse

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
)

const flow = yaml.FlowStyle

// script is the script of a peer of host.net, up to the step that ends the connection.
type script struct {
	index     int
	datagrams bool
	end       string // the step that ends the connection, "" for none
	silent    bool   // it sends nothing
	steps     []step
	points    []point
}

// step is one step of a script.
type step struct {
	node   *yamlpos.Node
	sends  bool
	data   []byte // what it sends; nil if the step has a form that this package does not know
	slowly bool   // byte by byte
}

// point is a place in a script: the first bytes of a step have been sent.
type point struct{ step, bytes int }

func newScript(index int, n *yamlpos.Node) *script {
	s := &script{index: index, silent: true}
	if dial := yamlpos.Field(n, "dial"); dial != nil {
		s.datagrams = strings.HasPrefix(dial.Value, "udp:")
	}
	for _, node := range list(n, "script") {
		if yamlpos.Field(node, "close") != nil {
			s.end = "close"
			break
		}
		if yamlpos.Field(node, "reset") != nil {
			s.end = "reset"
			break
		}
		one := step{node: node}
		if value := yamlpos.Field(node, "send"); value != nil {
			one.sends, one.data, one.slowly, s.silent = true, sent(value), yamlpos.Field(value, "every") != nil, false
		}
		s.points = append(s.points, point{len(s.steps), 0})
		for k := 1; k < len(one.data); k += stride(len(one.data)) {
			s.points = append(s.points, point{len(s.steps), k})
		}
		s.steps = append(s.steps, one)
	}
	s.points = append(s.points, point{len(s.steps), 0})
	return s
}

// sent returns the bytes of the field send; nil if it has an unknown form, or parts that are computed.
func sent(n *yamlpos.Node) []byte {
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch name := n.Content[i].Value; name {
		case "text", "hex", "every":
		default:
			return nil
		}
	}
	if text := yamlpos.Field(n, "text"); text != nil && text.Kind == yamlpos.Scalar && !strings.Contains(text.Value, "${") {
		return []byte(text.Value)
	}
	if digits := yamlpos.Field(n, "hex"); digits != nil {
		data, err := hex.DecodeString(strings.Join(strings.Fields(digits.Value), ""))
		if err == nil {
			return data
		}
	}
	return nil
}

// with returns an edit that replaces the script.
func (s *script) with(steps func() []*yamlpos.Node) Edit {
	return at("net", s.index, func(n *yamlpos.Node) {
		testfile.SetField(n, "script", &yamlpos.Node{Kind: yamlpos.List, Content: steps()})
	})
}

// until returns the steps before a point, with end after them, "" for none.
func (s *script) until(p point, end string) []*yamlpos.Node {
	var steps []*yamlpos.Node
	for _, one := range s.steps[:p.step] {
		steps = append(steps, testfile.Clone(one.node))
	}
	if p.bytes > 0 {
		steps = append(steps, send(s.steps[p.step].data[:p.bytes]))
	}
	return ended(steps, end)
}

func ended(steps []*yamlpos.Node, end string) []*yamlpos.Node {
	if end != "" {
		steps = append(steps, mapping(end, &yamlpos.Node{Kind: yamlpos.Mapping, Style: flow}))
	}
	return steps
}

// send returns a step that sends data.
func send(data []byte) *yamlpos.Node {
	if field.IsText(data) {
		return mapping("send", mapping("text", textNode(data)))
	}
	return mapping("send", mapping("hex", scalar(hex.EncodeToString(data))))
}

// textNode returns a string on one line.
func textNode(data []byte) *yamlpos.Node {
	n := scalar(string(data))
	n.Style = 0
	if bytes.ContainsAny(data, "\n\r\t") {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// cut returns an edit after which the peer stops at a point.
func (s *script) cut(p point, end string) Edit {
	return s.with(func() []*yamlpos.Node { return s.until(p, end) })
}

// replaced returns an edit after which the peer sends data in place of all that follows a point.
func (s *script) replaced(p point, data []byte, end string) Edit {
	return s.with(func() []*yamlpos.Node { return ended(append(s.until(p, ""), send(data)), end) })
}

// rewritten returns an edit that replaces the data of one step.
func (s *script) rewritten(index int, data func() []byte) Edit {
	return s.edited(func(i int, one step) *yamlpos.Node {
		if i == index {
			return send(data())
		}
		return testfile.Clone(one.node)
	})
}

// edited returns an edit that replaces each step, until the step that ends the connection.
func (s *script) edited(edit func(i int, one step) *yamlpos.Node) Edit {
	return s.with(func() (steps []*yamlpos.Node) {
		for i, one := range s.steps {
			steps = append(steps, edit(i, one))
		}
		return ended(steps, s.end)
	})
}

// slowly returns an edit after which the peer sends byte by byte, as far as the limit of a connection allows.
func (s *script) slowly() Edit {
	return s.with(func() (steps []*yamlpos.Node) {
		left := maxSlow
		for _, one := range s.steps {
			node := testfile.Clone(one.node)
			if one.sends && !one.slowly && len(one.data) <= left {
				testfile.SetField(yamlpos.Field(node, "send"), "every", scalar(interval))
				left -= len(one.data)
			}
			steps = append(steps, node)
		}
		return ended(steps, s.end)
	})
}

// maxSlow is the largest size of data that is sent byte by byte: each byte is a read of the guest.
const maxSlow = 16 << 10

// Intervals that are short in comparison with every timeout.
const (
	interval = "1us" // between bytes
	pause    = "1ms" // between steps
)

// delayed returns an edit after which the peer waits before it sends.
func (s *script) delayed() Edit {
	return s.with(func() (steps []*yamlpos.Node) {
		for _, one := range s.steps {
			if one.sends {
				steps = append(steps, mapping("wait", scalar(pause)))
			}
			steps = append(steps, testfile.Clone(one.node))
		}
		return ended(steps, s.end)
	})
}

// joined returns an edit after which data that is sent at once arrives at once.
func (s *script) joined() Edit {
	return s.with(func() (steps []*yamlpos.Node) {
		var data []byte
		for _, one := range s.steps {
			if one.data != nil && !one.slowly {
				data = append(data, one.data...)
				continue
			}
			if len(data) > 0 {
				steps = append(steps, send(data))
				data = nil
			}
			steps = append(steps, testfile.Clone(one.node))
		}
		if len(data) > 0 {
			steps = append(steps, send(data))
		}
		return ended(steps, s.end)
	})
}

// addScript adds the variants of a peer of host.net.
func (p *Plan) addScript(s *script) {
	index := len(p.Streams)
	name := fmt.Sprintf("host.net[%d]", s.index)
	if s.silent {
		return
	}
	stream := Stream{Name: name, Ends: s.end != "", Broken: behaviour("net", s.index, "reset")}
	for _, at := range s.points {
		stream.Stalls = append(stream.Stalls, s.cut(at, ""))
	}
	stream.Farewells = s.farewells()
	p.scripts[index] = s
	p.Streams = append(p.Streams, stream)
	add := func(v Variant) {
		v.Stream = index
		p.Variants = append(p.Variants, v)
	}
	s.addTimings(add)
	s.addReplacements(add)
	s.addCuts(add)
	s.addRewrites(add)
	for _, b := range []string{"refuse", "reset", "half-open", "timeout", "garbage"} {
		add(Variant{Family: family(b), What: "the peer has the behaviour " + b, Rule: NoSuccess, Edit: behaviour("net", s.index, b)})
	}
}

// farewells returns the parts of the script after its first answer, from the last one on.
func (s *script) farewells() (all []Farewell) {
	previous := -1 // the last step that sends
	for i, one := range s.steps {
		if !one.sends {
			continue
		}
		if previous >= 0 {
			after := point{previous + 1, 0}
			all = append(all, Farewell{slices.Index(s.points, after), s.cut(after, "close"), s.replaced(point{i, 0}, strangers()[0].data, "close")})
		}
		previous = i
	}
	if last := (point{previous + 1, 0}); s.end != "" && last.step < len(s.steps) { // the end is the last answer
		end := point{len(s.steps), 0}
		all = append(all, Farewell{slices.Index(s.points, last), s.cut(last, "close"), s.replaced(end, strangers()[0].data, "close")})
	}
	slices.Reverse(all)
	return all
}

func (s *script) addTimings(add func(Variant)) {
	if s.datagrams {
		return
	}
	add(Variant{Family: testfile.ByteByByte, What: "the peer sends byte by byte", Rule: Same, Edit: s.slowly()})
	add(Variant{Family: testfile.Pauses, What: "the peer pauses for " + pause + " before it sends", Rule: Same, Edit: s.delayed()})
	add(Variant{Family: testfile.AtOnce, What: "data that the peer sends in several pieces arrives at once", Rule: Same, Edit: s.joined()})
}

// addCuts adds variants that stop at each point.
func (s *script) addCuts(add func(Variant)) {
	total := len(s.points) - 1
	for i, at := range s.points {
		where := fmt.Sprintf("at point %d of %d", i, total)
		if n := len(s.steps); at.bytes > 0 {
			where = fmt.Sprintf("after %d of the %d bytes of step %d", at.bytes, len(s.steps[at.step].data), at.step+1)
		} else if at.step < n {
			where = fmt.Sprintf("before step %d of its script", at.step+1)
		}
		add(Variant{Family: "cut and stall", What: "the peer stops " + where + " and stays connected", Point: i, Edit: s.cut(at, "")})
		if s.datagrams || i == total {
			continue
		}
		add(Variant{Family: testfile.CutAndClose, What: "the peer closes " + where, Rule: NoSuccessUnlessEnd, Point: i, Edit: s.cut(at, "close")})
		add(Variant{Family: testfile.CutAndReset, What: "the peer resets the connection " + where, Rule: NoSuccess, Point: i, Edit: s.cut(at, "reset")})
	}
}

// addReplacements adds variants that answer something else from a step on.
func (s *script) addReplacements(add func(Variant)) {
	ends := []string{"", "close"}
	if s.datagrams {
		ends = ends[:1]
	}
	for i, at := range s.points {
		if at.bytes > 0 || at.step == len(s.steps) || !s.steps[at.step].sends {
			continue
		}
		for _, other := range strangers() {
			if begins(other.data, s.steps[at.step].data) {
				continue
			}
			for _, end := range ends {
				what := fmt.Sprintf("the peer sends %s in place of step %d", other.name, at.step+1)
				if end != "" {
					what += " and closes"
				}
				add(Variant{
					Family: testfile.AnotherAnswer, What: what, Rule: NoSuccess, Point: i, Edit: s.replaced(at, other.data, end),
					Size: len(other.data), Shrunk: func(n int) Edit { return s.replaced(at, other.data[:n], end) },
				})
			}
		}
	}
}

// begins reports whether two answers begin alike, so that one may be taken for the other. own is nil if it is
// unknown.
func begins(other, own []byte) bool {
	const enough = 3
	n := min(len(own), enough)
	return n > 0 && bytes.HasPrefix(other, own[:n])
}

// addRewrites adds variants with other values in the data.
func (s *script) addRewrites(add func(Variant)) {
	for i, one := range s.steps {
		for _, r := range rewrites(one.data) {
			v := Variant{
				Family: r.family, What: fmt.Sprintf("in step %d %s", i+1, r.what), Point: slices.Index(s.points, point{i, 0}), Edit: s.rewritten(i, r.data), Size: r.size,
			}
			if r.part != nil {
				v.Shrunk = func(n int) Edit { return s.rewritten(i, func() []byte { return r.part(n) }) }
			}
			add(v)
		}
	}
}
