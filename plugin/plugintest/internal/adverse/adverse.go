// Package adverse derives variants of a test case in which its peers break the protocol: they end too
// early, answer slowly, answer something else, or lie about lengths. It edits the case as it is written
// in its file, so every variant is a test case that can be pasted there. It runs nothing.
//
// Read this file first. script.go has the peers of host.net, web.go the peers of host.http, and dns.go the peers
// of host.dns. values.go has the bytes that they send, and random.go the variants of a fuzzer.
package adverse

import (
	"strconv"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
)

// Rule is what the result of a variant may be.
type Rule int

const (
	// Any allows every result.
	Any Rule = iota
	// Same wants the result of the case.
	Same
	// NoSuccess allows everything but success, if the case needs what follows [Variant.Point].
	NoSuccess
	// NoSuccessUnlessEnd is NoSuccess for peers whose answer has another end than the connection's.
	NoSuccessUnlessEnd
)

// Edit changes an item of cases. It must be the first edit of that item.
type Edit func(item *yamlpos.Node)

// Variant is a variant of a case.
type Variant struct {
	Family testfile.Fault // one of testfile.Faults if its Rule is not Any
	What   string         // what the peer does
	Rule   Rule
	Stream int // index in [Plan.Streams]
	Point  int // number of points of the stream before the first change, or Header
	Edit   Edit
	Order  int // in the plan: the first variant of several is the simplest

	// Size is the size of the data that replaces the peer's, and Shrunk returns the edit for its
	// first n bytes. Shrunk is nil if the variant cannot be smaller.
	Size   int
	Shrunk func(n int) Edit
}

// Header is the point of a change of an HTTP reply that does not concern its body.
const Header = -1

// Stream is what one peer sends.
type Stream struct {
	Name string // such as "host.net[0]"

	// Stalls has one edit for each point, from the beginning to the end of the stream. The peer stops
	// there, and does not end.
	Stalls []Edit
	// Ends reports whether the peer ends the connection itself.
	Ends bool
	// Farewells has the last parts of the stream that the plugin may ignore, from the end.
	Farewells []Farewell
	// Broken resets the connection at once.
	Broken Edit
	// Empty answers without a body; nil if the peer is no HTTP server.
	Empty Edit
}

// Farewell is a part of a stream after which nothing follows that success needs, if both of its edits give
// success: one closes the connection at Point, the other one sends an answer of another protocol there.
type Farewell struct {
	Point            int
	Closed, Stranger Edit
}

// Points returns the number of points of the stream.
func (s *Stream) Points() int { return len(s.Stalls) }

// Plan has the variants of a case.
type Plan struct {
	Streams  []Stream
	Variants []Variant

	scripts   map[int]*script // by the index of their stream
	exchanges map[int]*exchange
}

// New returns the variants of an item of cases.
func New(item *yamlpos.Node) *Plan {
	p := &Plan{scripts: make(map[int]*script), exchanges: make(map[int]*exchange)}
	host := yamlpos.Field(item, "host")
	if host == nil {
		return p
	}
	for i, n := range list(host, "net") {
		p.addScript(newScript(i, n))
	}
	for i, n := range list(host, "http") {
		p.addExchange(i, n)
	}
	for i := range list(host, "dns") {
		p.addRecord(i, list(host, "dns")[i], len(list(host, "dns")) == 1)
	}
	return p
}

// First returns at most n variants in an order in which the first ones say most: in turn one of each family, and
// each family evenly spread.
func (p *Plan) First(n int) []Variant {
	families := make(map[testfile.Fault][]int)
	var names []testfile.Fault
	for i := range p.Variants {
		family := p.Variants[i].Family
		if families[family] == nil {
			names = append(names, family)
		}
		families[family] = append(families[family], i)
	}
	for _, indexes := range families {
		order := spread(len(indexes))
		for i, at := range order {
			order[i] = indexes[at]
		}
		copy(indexes, order)
	}
	n = min(n, len(p.Variants))
	first := make([]Variant, 0, n)
	for turn := 0; len(first) < n; turn++ {
		for _, name := range names {
			if turn < len(families[name]) && len(first) < n {
				v := p.Variants[families[name][turn]]
				v.Order = families[name][turn]
				first = append(first, v)
			}
		}
	}
	return first
}

// spread returns the numbers below n in an order in which each beginning is evenly spread.
func spread(n int) []int {
	bits := 0
	for 1<<bits < n {
		bits++
	}
	order := make([]int, 0, n)
	for i := range 1 << bits {
		reversed := 0
		for b := range bits {
			if i&(1<<b) != 0 {
				reversed |= 1 << (bits - 1 - b)
			}
		}
		if reversed < n {
			order = append(order, reversed)
		}
	}
	return order
}

// list returns the items of a list below a mapping.
func list(n *yamlpos.Node, name string) []*yamlpos.Node {
	if value := yamlpos.Field(n, name); value != nil && value.Kind == yamlpos.List {
		return value.Content
	}
	return nil
}

// at returns an edit of the item with an index in a list of host.
func at(name string, index int, edit func(n *yamlpos.Node)) Edit {
	return func(item *yamlpos.Node) { edit(list(yamlpos.Field(item, "host"), name)[index]) }
}

// behaviour returns an edit that gives a peer a behaviour in place of its script or reply.
func behaviour(name string, index int, b string) Edit {
	return at(name, index, func(n *yamlpos.Node) {
		for _, field := range []string{"script", "reply", "rcode", "answers"} {
			testfile.SetField(n, field, nil)
		}
		testfile.SetField(n, "behaviour", scalar(b))
	})
}

func scalar(value string) *yamlpos.Node {
	n := &yamlpos.Node{}
	n.SetString(value)
	return n
}

// number returns a scalar that is an integer.
func number(value int) *yamlpos.Node {
	return &yamlpos.Node{Kind: yamlpos.Scalar, Tag: "!!int", Value: strconv.Itoa(value)}
}

// family returns the family of a behaviour of a peer.
func family(behaviour string) testfile.Fault {
	if behaviour == "garbage" {
		return testfile.AnotherAnswer
	}
	return testfile.Unanswered
}

// mapping returns a mapping on one line.
func mapping(name string, value *yamlpos.Node) *yamlpos.Node {
	n := &yamlpos.Node{Kind: yamlpos.Mapping, Style: flow}
	testfile.SetField(n, name, value)
	return n
}
