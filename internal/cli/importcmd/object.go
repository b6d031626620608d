package importcmd

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/internal/yamlpos"
)

// object is a mapping of an input. Each of its methods counts a field as read, and rest reports the others.
type object struct {
	p    *plan
	file string
	path string
	n    *yamlpos.Node
	used map[string]bool

	places  map[string]int    // indexes of the names in n.Content, of a mapping with many fields
	indexed int               // how much of n.Content is in places
	from    map[string]string // other files that fields come from
}

func newObject(p *plan, file, path string, n *yamlpos.Node) *object {
	return &object{p: p, file: file, path: path, n: n, used: make(map[string]bool)}
}

// at returns the position of a field, or of the object for "".
func (o *object) at(name string) position {
	if name == "" {
		return position{o.file, o.n.Line, o.path}
	}
	at := position{cmp.Or(o.from[name], o.file), o.n.Line, join(o.path, name)}
	if i := o.find(name); i >= 0 {
		at.line = o.n.Content[i].Line
	}
	return at
}

// manyFields is the number of nodes of a mapping above which it has an index.
const manyFields = 64

// find returns the index of the name of a field in the content of o; -1 if it is not set.
func (o *object) find(name string) int {
	if o.n.Kind != yamlpos.Mapping {
		return -1
	}
	if len(o.n.Content) <= manyFields {
		return indexOf(o.n, name)
	}
	if o.places == nil {
		o.places = make(map[string]int)
	}
	for ; o.indexed+1 < len(o.n.Content); o.indexed += 2 {
		if name := o.n.Content[o.indexed].Value; !hasKey(o.places, name) {
			o.places[name] = o.indexed
		}
	}
	if i, ok := o.places[name]; ok {
		return i
	}
	return -1
}

func hasKey[V any](m map[string]V, key string) bool { _, ok := m[key]; return ok }

func indexOf(n *yamlpos.Node, name string) int {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return i
		}
	}
	return -1
}

// field returns the value of a field, without reading it; nil if it is not set.
func (o *object) field(name string) *yamlpos.Node {
	if i := o.find(name); i >= 0 {
		return o.n.Content[i+1]
	}
	return nil
}

func join(path, name string) string { return yamlpos.Join(path, name) }

// node returns the value of a field; nil if it is not set or null.
func (o *object) node(name string) *yamlpos.Node {
	o.used[name] = true
	n := o.field(name)
	if n == nil || n.Tag == "!!null" {
		return nil
	}
	return n
}

// text returns the scalar of a field; "" if it is not set.
func (o *object) text(name string) string {
	n := o.node(name)
	switch {
	case n == nil:
		return ""
	case n.Kind != yamlpos.Scalar:
		o.wrong(name, "a string")
		return ""
	}
	return n.Value
}

func (o *object) wrong(name, want string) {
	o.p.noEqual(o.at(name), "must be %s, not %s", want, yamlpos.Kind(o.field(name)))
}

// boolean returns the value of a field, or without if it is not set.
func (o *object) boolean(name string, without bool) bool {
	switch text := o.text(name); strings.ToLower(text) {
	case "":
		return without
	case "true", "1", "yes", "on":
		return true
	case "false", "0", "no", "off":
		return false
	default:
		o.p.noEqual(o.at(name), "%.80q must be true or false", text)
		return without
	}
}

// number returns the value of a field, or without if it is not set.
func (o *object) number(name string, without float64) float64 {
	text := o.text(name)
	if text == "" {
		return without
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > -1e12 && v < 1e12) {
		o.p.noEqual(o.at(name), "%.80q must be a number", text)
		return without
	}
	return v
}

func (o *object) integer(name string, without int) int { return int(o.number(name, float64(without))) }

// units returns a number of units as a duration.
func (o *object) units(name string, without float64, unit time.Duration) time.Duration {
	number := o.number(name, without)
	if number < 0 {
		o.p.noEqual(o.at(name), "must not be negative")
	}
	return units(number, unit)
}

// units returns a number of units as a duration of at most a year.
func units(number float64, unit time.Duration) time.Duration {
	return time.Duration(min(max(number*float64(unit), 0), float64(maxTTL)))
}

const maxTTL = 366 * 24 * time.Hour

// interval returns a Go duration, or without if the field is not set.
func (o *object) interval(name string, without time.Duration) time.Duration {
	text := o.text(name)
	if text == "" {
		return without
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maxTTL {
		o.p.noEqual(o.at(name), "%.80q must be a duration such as 30s", text)
		return without
	}
	return d
}

// object returns the mapping of a field; it has no fields if the field is not set.
func (o *object) object(name string) *object {
	n := o.node(name)
	if n != nil && n.Kind != yamlpos.Mapping {
		o.wrong(name, "a mapping")
		n = nil
	}
	if n == nil {
		n = &yamlpos.Node{Kind: yamlpos.Mapping, Line: o.n.Line}
	}
	return newObject(o.p, o.file, join(o.path, name), n)
}

// isSet reports whether the mapping has fields.
func (o *object) isSet() bool { return len(o.n.Content) > 0 }

// has reports whether a field is set, without reading it.
func (o *object) has(name string) bool {
	n := o.field(name)
	return n != nil && n.Tag != "!!null"
}

// objects returns the mappings of a list, or of a mapping that stands alone.
func (o *object) objects(name string) (all []*object) {
	for i, n := range o.items(name) {
		path := join(o.path, name)
		if list := o.field(name); list.Kind == yamlpos.List {
			path = yamlpos.Item(path, i)
		}
		if n.Kind != yamlpos.Mapping {
			o.p.noEqual(position{o.file, n.Line, path}, "must be a mapping, not %s", yamlpos.Kind(n))
			continue
		}
		all = append(all, newObject(o.p, o.file, path, n))
	}
	return all
}

// items returns the items of a list, or a value that stands alone.
func (o *object) items(name string) []*yamlpos.Node {
	n := o.node(name)
	switch {
	case n == nil:
		return nil
	case n.Kind == yamlpos.List:
		return n.Content
	default:
		return []*yamlpos.Node{n}
	}
}

// strings returns the scalars of a list, or a scalar that stands alone.
func (o *object) strings(name string) (all []string) {
	for _, n := range o.items(name) {
		if n.Kind != yamlpos.Scalar {
			o.p.noEqual(position{o.file, n.Line, join(o.path, name)}, "must be a string, not %s", yamlpos.Kind(n))
			continue
		}
		all = append(all, n.Value)
	}
	return all
}

// pair is a field of a mapping with names of the user's.
type pair struct {
	key, value string
	at         position
}

// pairs returns the fields of a mapping of strings, in their order.
func (o *object) pairs(name string) []pair { return o.object(name).all() }

// all returns the fields of a mapping of strings, in their order.
func (o *object) all() (all []pair) {
	for i := 0; i+1 < len(o.n.Content); i += 2 {
		key := o.n.Content[i].Value
		all = append(all, pair{key, o.text(key), o.at(key)})
	}
	return all
}

// ignore reports fields that have no meaning for probes.
func (o *object) ignore(why string, names ...string) {
	for _, name := range names {
		if o.has(name) {
			o.p.report(ignored, o.at(name), "%s", why)
		}
		o.used[name] = true
	}
}

// none reports fields that have no equal, unless they have one of the values that change nothing.
func (o *object) none(why string, names ...string) {
	for _, name := range names {
		n := o.node(name)
		if n == nil || n.Kind == yamlpos.Scalar && slices.Contains([]string{"", "false", "0"}, n.Value) || n.Kind != yamlpos.Scalar && len(n.Content) == 0 {
			continue
		}
		o.p.noEqual(o.at(name), "%s", why)
	}
}

// rest reports the fields that nobody has read.
func (o *object) rest() {
	for i := 0; o.n.Kind == yamlpos.Mapping && i+1 < len(o.n.Content); i += 2 {
		key := o.n.Content[i]
		if o.used[key.Value] {
			continue
		}
		o.used[key.Value] = true
		o.p.noEqual(o.at(key.Value), "the field is unknown, or has no equal")
	}
}

// parseYAML returns the document of a YAML or JSON file.
func parseYAML(p *plan, in input) (*object, error) {
	d := yamlpos.Decoder{File: in.name, Loose: true}
	root := d.Parse(in.text, maxInput)
	if err := d.Err(); err != nil {
		return nil, err
	}
	if root.Kind != yamlpos.Mapping {
		return nil, fmt.Errorf("%s:%d: must be a mapping, not %s", in.name, max(root.Line, 1), yamlpos.Kind(root))
	}
	return newObject(p, in.name, "", root), nil
}
