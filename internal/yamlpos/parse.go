package yamlpos

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"go.yaml.in/yaml/v3"
)

// The limits of one document, with its aliases expanded.
const (
	MaxDepth = 100      // levels of mappings and lists
	MaxNodes = 500_000  // values and names of fields
	MaxText  = 16 << 20 // bytes of scalars
)

// Node is a value in a document.
type Node = yaml.Node

// The kinds of a [Node] that a [Decoder] returns.
const (
	Mapping = yaml.MappingNode
	List    = yaml.SequenceNode
	Scalar  = yaml.ScalarNode
)

// Parse returns the root of the only document in data, which must have at most maxBytes bytes. It returns nil
// if the document cannot be read. A field that is set twice is an error, and its first value is
// used.
func (d *Decoder) Parse(data []byte, maxBytes int) *Node {
	var roots []*Node
	ok := d.documents(data, maxBytes, func(root *Node) bool {
		roots = append(roots, root)
		return true
	})
	switch {
	case !ok:
		return nil
	case len(roots) > 1:
		d.Errorf(roots[1], "", "must be one document: another one begins here")
		return nil
	case len(roots) == 0 || roots[0].Tag == "!!null":
		d.Errorf(nil, "", "the file is empty")
		return nil
	}
	return roots[0]
}

// All returns the roots of all nonempty documents in data. It stops at the first document that cannot be read. It
// decodes documents one at a time, since the nodes of a document take many times the memory of its text.
func (d *Decoder) All(data []byte, maxBytes int) iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		d.documents(data, maxBytes, func(root *Node) bool { return root.Tag == "!!null" || yield(root) })
	}
}

// documents calls yield with each document, until one cannot be read or yield returns false. ok is false if a
// document could not be read.
func (d *Decoder) documents(data []byte, maxBytes int, yield func(root *Node) bool) (ok bool) {
	if len(data) > maxBytes {
		d.Errorf(nil, "", "must be at most %d bytes", maxBytes)
		return false
	}
	documents := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document Node
		switch err := documents.Decode(&document); {
		case errors.Is(err, io.EOF):
			return true
		case err != nil:
			d.errs = append(d.errs, syntaxError(d.File, err))
			return false
		}
		root := document.Content[0]
		check := structure{d: d, nodes: MaxNodes, text: MaxText}
		if err := check.node(root, nil); err != nil {
			d.Errorf(root, "", "%w", err)
			return false
		}
		if !yield(root) {
			return true
		}
	}
}

// step is the last step of a path. The text of the path is only formatted for an error.
type step struct {
	parent *step
	name   string // name of a field; "" for an item
	index  int
	depth  int
}

func (s *step) path() string {
	switch {
	case s == nil:
		return ""
	case s.name == "":
		return Item(s.parent.path(), s.index)
	default:
		return Join(s.parent.path(), s.name)
	}
}

// structure checks the rules for every document.
type structure struct {
	d           *Decoder
	nodes, text int // remainders of [MaxNodes] and [MaxText]
}

// node checks n and everything below it, and replaces aliases by their values. It returns an error if the
// document is too large.
func (s *structure) node(n *Node, at *step) error {
	s.nodes--
	s.text -= len(n.Value)
	switch {
	case s.nodes < 0 || s.text < 0:
		return errors.New("the document is too large with its aliases written out")
	case at != nil && at.depth > MaxDepth:
		return fmt.Errorf("the document has more than %d levels", MaxDepth)
	case n.Kind == Mapping:
		return s.mapping(n, at)
	}
	for i := range n.Content {
		n.Content[i] = resolve(n.Content[i])
		if err := s.node(n.Content[i], below(at, "", i)); err != nil {
			return err
		}
	}
	return nil
}

// mapping checks a mapping, and removes invalid fields.
func (s *structure) mapping(n *Node, at *step) error {
	seen := make(map[string]bool, len(n.Content)/2)
	kept := n.Content[:0]
	var merged []*Node
	if s.d.Loose { // keep n.Content intact: a mapping below n that merges n reads it, until the depth limit
		kept = make([]*Node, 0, len(n.Content))
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolve(n.Content[i]), resolve(n.Content[i+1])
		switch {
		case key.Kind != Scalar:
			s.d.Errorf(key, at.path(), "the name of a field must be a string, not %s", Kind(key))
			continue
		case key.Tag == "!!merge" && s.d.Loose:
			if err := s.node(value, below(at, key.Value, 0)); err != nil {
				return err
			}
			merged = append(merged, value)
			continue
		case key.Tag == "!!merge":
			s.d.Errorf(key, at.path(), "merge keys (<<) are not supported")
			continue
		case seen[key.Value]:
			s.d.Errorf(key, Join(at.path(), key.Value), "the field is set twice")
			continue
		}
		seen[key.Value] = true
		s.nodes--
		s.text -= len(key.Value)
		if err := s.node(value, below(at, key.Value, 0)); err != nil {
			return err
		}
		kept = append(kept, key, value)
	}
	n.Content = kept
	for _, value := range merged {
		s.merge(n, value, seen, at)
	}
	return nil
}

// merge adds missing fields to n from value, a mapping or a list of mappings.
func (s *structure) merge(n, value *Node, seen map[string]bool, at *step) {
	list := []*Node{value}
	if value.Kind == List {
		list = value.Content
	}
	for _, m := range list {
		if m.Kind != Mapping {
			s.d.Errorf(m, Join(at.path(), "<<"), "must be a mapping, not %s", Kind(m))
			continue
		}
		for i := 0; i+1 < len(m.Content); i += 2 {
			if key := m.Content[i]; !seen[key.Value] {
				seen[key.Value] = true
				n.Content = append(n.Content, key, m.Content[i+1])
			}
		}
	}
}

func below(at *step, name string, index int) *step {
	s := &step{parent: at, name: name, index: index, depth: 1}
	if at != nil {
		s.depth = at.depth + 1
	}
	return s
}

// resolve returns n, or its value if n is an alias.
func resolve(n *Node) *Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}
