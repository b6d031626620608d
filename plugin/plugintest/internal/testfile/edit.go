package testfile

import (
	"fmt"
	"path/filepath"

	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
)

// Editor makes variants of the cases of a file. It is safe for concurrent use.
type Editor struct {
	file     *File
	doc      *yamlpos.Node // without cases
	items    []*yamlpos.Node
	defaults *Case
}

// NewEditor returns an editor of a file that [Load] has read.
func NewEditor(f *File) (*Editor, error) {
	e := &Editor{file: f, defaults: newCase()}
	r := field.NewReader(f.Path)
	doc := r.Parse(f.Text, maxFile)
	if doc == nil {
		return nil, r.Err()
	}
	if defaults := yamlpos.Field(doc, "defaults"); defaults != nil {
		readDefaults(r, e.defaults)(defaults, "defaults")
	}
	if cases := yamlpos.Field(doc, "cases"); cases != nil {
		e.items = cases.Content
	}
	SetField(doc, "cases", nil)
	e.doc = doc
	if len(e.items) != len(f.Cases) {
		return nil, fmt.Errorf("%s: it has %d cases, not %d", f.Path, len(e.items), len(f.Cases))
	}
	return e, r.Err()
}

// Item returns a copy of the case at index, as it is written. A replay has the request and the host of its
// session.
func (e *Editor) Item(index int) (*yamlpos.Node, error) {
	item := Clone(e.items[index])
	name := yamlpos.Field(item, "replay")
	if name == nil {
		return item, nil
	}
	path := name.Value
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(e.file.Path), path)
	}
	data, err := regular.Read(path, maxFile)
	if err != nil {
		return nil, err
	}
	r := field.NewReader(path)
	session := r.Parse(data, maxFile)
	if session == nil {
		return nil, r.Err()
	}
	SetField(item, "replay", nil)
	for _, key := range []string{"timeout", "seed", "time", "grants", "host", "request", "want"} {
		inherit(item, session, key)
	}
	return item, r.Err()
}

// inherit adds the value of key in session to item, without the fields that item has already. A config and labels
// are one value each, as in a run of the case.
func inherit(item, session *yamlpos.Node, key string) {
	value, own := yamlpos.Field(session, key), yamlpos.Field(item, key)
	switch {
	case value == nil:
	case own == nil:
		SetField(item, key, Clone(value))
	case key == "config" || key == "labels":
	case own.Kind == yamlpos.Mapping && value.Kind == yamlpos.Mapping:
		for i := 0; i+1 < len(value.Content); i += 2 {
			inherit(own, value, value.Content[i].Value)
		}
	}
}

// File returns a file with the defaults of the edited one, and with one item.
func (e *Editor) File(item *yamlpos.Node) *yamlpos.Node {
	doc := Clone(e.doc)
	SetField(doc, "cases", &yamlpos.Node{Kind: yamlpos.List, Content: []*yamlpos.Node{item}})
	return doc
}

// Case decodes an item. It removes the names of scripts that no step uses, as after an edit that cuts a script.
func (e *Editor) Case(item *yamlpos.Node) (*Case, error) {
	r := field.NewReader(e.file.Path)
	c := newCase()
	c.Line, c.Timeout, c.Grants, c.Accepts = item.Line, e.defaults.Timeout, e.defaults.Grants, e.defaults.Accepts
	dropUnused(item)
	decodeCase(r, item, "cases[]", c)
	return c, r.Err()
}

// Clone returns a deep copy of a node, without anchors and comments.
func Clone(n *yamlpos.Node) *yamlpos.Node {
	c := &yamlpos.Node{Kind: n.Kind, Style: n.Style, Tag: n.Tag, Value: n.Value, Line: n.Line, Column: n.Column}
	for _, child := range n.Content {
		c.Content = append(c.Content, Clone(child))
	}
	return c
}

// SetField sets a field of a mapping. A nil value removes it.
func SetField(n *yamlpos.Node, name string, value *yamlpos.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch {
		case n.Content[i].Value != name:
		case value == nil:
			n.Content = append(n.Content[:i], n.Content[i+2:]...)
			return
		default:
			n.Content[i+1] = value
			return
		}
	}
	if value != nil {
		key := &yamlpos.Node{}
		key.SetString(name)
		n.Content = append(n.Content, key, value)
	}
}
