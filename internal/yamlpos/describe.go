package yamlpos

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/daeace23/prober/internal/shape"
)

// frame is the value whose description is being recorded.
type frame struct {
	shape    *shape.Shape
	recorded bool // of the present kind
}

// Describe returns the values that read, a reader of d, accepts. It calls read with an empty value of each kind. The
// readers of d then record their types, fields and forms, and return as after an error. A kind of values that causes no
// error is accepted. Closures of readers need no code for that, with three rules:
//
//   - A value that is read before or after the other fields needs [Decoder.Earlier] or [Decoder.Later].
//   - A field must not be required because of another field; see [Decoder.Require].
//   - A check of a text outside of a reader is not described, unless [Decoder.Form] adds it.
//
// A decoder that has described a reader must not be used for anything else.
func (d *Decoder) Describe(read Reader) *shape.Shape {
	outer, errs := d.frame, d.errs
	defer func() { d.frame, d.errs = outer, errs }()
	f := &frame{shape: new(shape.Shape)}
	for _, kind := range []Node{{Kind: Mapping, Tag: "!!map"}, {Kind: List, Tag: "!!seq"}, {Kind: Scalar, Tag: "!!str"}} {
		d.frame, d.errs, f.recorded = f, nil, false
		read(&kind, "")
		if !f.recorded && len(d.errs) == 0 {
			f.acceptAny(&kind)
		}
	}
	s := f.shape
	if s.Object != nil && s.Object.Others != nil && s.Object.Others.Any && s.Object.Fields == nil && s.List != nil && s.List.Items.Any && s.Scalar != nil && s.Scalar.Types == nil {
		s.Any = true
	}
	if s.Scalar != nil && s.Scalar.Types == nil {
		s.Scalar.Types = shape.Text()
	}
	return s
}

// acceptAny accepts every value of the kind of n.
func (f *frame) acceptAny(n *Node) {
	f.recorded = true
	switch n.Kind {
	case Mapping:
		f.shape.Object = &shape.Object{Others: &shape.Shape{Any: true}}
	case List:
		f.shape.List = &shape.List{Items: &shape.Shape{Any: true}}
	default:
		f.shape.Scalar = new(shape.Scalar)
	}
}

// records reports whether d describes n, a value of this kind.
func (d *Decoder) records(n *Node, kind yaml.Kind) bool {
	if d.frame == nil || n.Kind != kind {
		return false
	}
	d.frame.recorded = true
	return true
}

// describeFields records a mapping with fields.
func (d *Decoder) describeFields(known Fields, required []string) {
	f := d.frame
	o := &shape.Object{Fields: make(map[string]*shape.Shape, len(known)), Required: required}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		o.Fields[name] = d.Describe(known[name])
	}
	f.shape.Object = o
}

// describeScalar records a form if d describes a scalar, and reports whether it does.
func (d *Decoder) describeScalar(n *Node, form shape.Form) bool {
	if !d.records(n, Scalar) {
		return false
	}
	c := d.frame.shape.Scalar
	if c == nil {
		c = new(shape.Scalar)
		d.frame.shape.Scalar = c
	}
	c.Add(form)
	return true
}

// Form returns a reader like read, whose description has a form. [Decoder.Describe] panics if read and the form
// differ: each text of an enumeration must be accepted, and another one refused; the same with the examples of a
// pattern.
func (d *Decoder) Form(form shape.Form, read Reader) Reader {
	return func(n *Node, path string) {
		read(n, path)
		if d.frame == nil || n.Kind != Scalar {
			return
		}
		d.checkForm(&form, read)
		d.describeScalar(n, form)
	}
}

// checkForm panics if read does not accept what a form describes.
func (d *Decoder) checkForm(form *shape.Form, read Reader) {
	outer, errs := d.frame, d.errs
	defer func() { d.frame, d.errs = outer, errs }()
	d.frame = nil
	check := func(text string, want bool) {
		d.errs = nil
		if read(&Node{Kind: Scalar, Tag: "!!str", Value: text}, ""); (d.errs == nil) != want {
			panic(fmt.Sprintf("yamlpos: a form of %+v, whose reader returns %v for %q", *form, d.errs, text))
		}
	}
	for _, text := range form.Enum {
		check(text, true)
	}
	if form.Enum != nil {
		check("no such text", false)
	}
	if form.Pattern == "" {
		return
	}
	pattern := regexp.MustCompile(form.Pattern)
	for i, text := range append(slices.Clone(form.Good), form.Bad...) {
		check(text, i < len(form.Good))
		if pattern.MatchString(text) != (i < len(form.Good)) {
			panic(fmt.Sprintf("yamlpos: %s is no pattern for %q", form.Pattern, text))
		}
	}
}

// Refer returns a reader like read, which [Decoder.Describe] describes by the name of a definition.
func (d *Decoder) Refer(name string, read Reader) Reader {
	return func(n *Node, path string) {
		if d.frame == nil {
			read(n, path)
			return
		}
		d.frame.recorded, d.frame.shape.Ref = true, name
	}
}

// Later returns the reader for a field that is read after the other fields of its mapping, by read. It only keeps the
// value; its description is read's.
func (d *Decoder) Later(keep **Node, read Reader) Reader {
	return func(n *Node, path string) {
		if d.frame != nil {
			read(n, path)
			return
		}
		*keep = n
	}
}

// Earlier returns the reader for a field that was read before the other fields of its mapping, by read. It reads nothing;
// its description is read's.
func (d *Decoder) Earlier(read Reader) Reader {
	return func(n *Node, path string) {
		if d.frame != nil {
			read(n, path)
		}
	}
}
