package yamlpos

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/internal/nearest"
	"github.com/daeace23/prober/internal/shape"
)

// Decoder reads the values of a file and collects the errors. It is not safe for concurrent use.
type Decoder struct {
	File string // the name of the file in errors

	// Loose follows gopkg.in/yaml.v3, for the files of programs that use it. It accepts merge keys (<<), and in
	// [Decoder.Into] any scalar as a string, and yes, no, on and off as booleans.
	Loose bool

	errs    []error // at most maxErrors
	dropped int     // number of further errors
	frame   *frame  // of [Decoder.Describe]; nil otherwise
}

// maxErrors is the limit of the errors of a file. Nobody reads more, and a large file that another program
// writes may have thousands.
const maxErrors = 100

// Err returns the errors, joined, each an [*Error]; nil when there are none.
func (d *Decoder) Err() error { return errors.Join(d.Errors()...) }

// Errors returns the first 100 errors, and one with the number of further errors. Each is an [*Error].
func (d *Decoder) Errors() []error {
	if d.dropped == 0 {
		return d.errs
	}
	return append(slices.Clone(d.errs), &Error{File: d.File, Err: fmt.Errorf("%d further errors are not shown", d.dropped)})
}

// Errorf adds an error about the value n at path. A nil n is the beginning of the file.
func (d *Decoder) Errorf(n *Node, path, format string, args ...any) {
	d.Error(n, path, fmt.Errorf(format, args...))
}

// Error adds err, or each of the errors that it joins, about the value n at path.
func (d *Decoder) Error(n *Node, path string, err error) {
	line := 1
	if n != nil {
		line = max(n.Line, 1)
	}
	for _, err := range joined.Errors(err) {
		d.ErrorAt(line, path, err)
	}
}

// ErrorAt adds an error about a line.
func (d *Decoder) ErrorAt(line int, path string, err error) {
	if len(d.errs) == maxErrors {
		d.dropped++
		return
	}
	d.errs = append(d.errs, &Error{File: d.File, Line: line, Field: path, Err: err})
}

// Reader reads the value at a path.
type Reader = func(n *Node, path string)

// Fields has the readers of the fields that a mapping may have.
type Fields = map[string]Reader

// Join returns the path of a field below path. Names with dots and other special characters are put in brackets:
// metadata.annotations[prober.dev/probes].
func Join(path, name string) string {
	switch {
	case path == "":
		return name
	case strings.ContainsAny(name, "./[] "):
		return path + "[" + name + "]"
	default:
		return path + "." + name
	}
}

// Item returns the path of an item of the list at path.
func Item(path string, index int) string { return path + "[" + strconv.Itoa(index) + "]" }

// Mapping reads the fields of a mapping. Unknown fields and missing required fields are errors.
func (d *Decoder) Mapping(n *Node, path string, known Fields, required ...string) {
	if d.records(n, Mapping) {
		d.describeFields(known, required)
		return
	}
	ok := d.Entries(n, path, func(key, value *Node, path string) {
		if read, ok := known[key.Value]; ok {
			read(value, path)
			return
		}
		d.Errorf(key, path, "unknown field%s", Known(key.Value, slices.Collect(maps.Keys(known))))
	})
	if ok {
		d.Require(n, path, required...)
	}
}

// Require reports fields of a mapping that are required and not set. It is for fields that are required only beside
// others; the description of the mapping does not have them.
func (d *Decoder) Require(n *Node, path string, required ...string) {
	for _, name := range required {
		if n.Kind == Mapping && Field(n, name) == nil {
			d.Errorf(n, Join(path, name), "the field is required")
		}
	}
}

// One reads a mapping that has exactly one of the known fields.
func (d *Decoder) One(n *Node, path string, known Fields) {
	d.Mapping(n, path, known)
	if d.records(n, Mapping) {
		d.frame.shape.Object.Single = true
		return
	}
	if n.Kind == Mapping && len(n.Content) != 2 {
		d.Errorf(n, path, "must have exactly one of %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
}

// Entries reads the fields of a mapping with arbitrary names. It reports whether n is a
// mapping.
func (d *Decoder) Entries(n *Node, path string, entry func(key, value *Node, path string)) bool {
	if d.records(n, Mapping) {
		f := d.frame
		f.shape.Object = &shape.Object{Others: d.Describe(func(n *Node, path string) { entry(&Node{Kind: Scalar, Tag: "!!str", Value: "name"}, n, path) })}
		return true
	}
	if n.Kind != Mapping {
		d.Errorf(n, path, "must be a mapping, not %s", Kind(n))
		return false
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		entry(key, value, Join(path, key.Value))
	}
	return true
}

// Field returns the value of a field of a mapping; nil if n is not a mapping or the field is not
// set.
func Field(n *Node, name string) *Node {
	for i := 0; n.Kind == Mapping && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// Items reads the items of a list.
func (d *Decoder) Items(n *Node, path string, item Reader) {
	if d.records(n, List) {
		f := d.frame
		f.shape.List = &shape.List{Items: d.Describe(item)}
		return
	}
	if n.Kind != List {
		d.Errorf(n, path, "must be a list, not %s", Kind(n))
		return
	}
	for i, child := range n.Content {
		item(child, Item(path, i))
	}
}

// ListOf returns a reader of a list.
func (d *Decoder) ListOf(item Reader) Reader {
	return func(n *Node, path string) { d.Items(n, path, item) }
}

// Text returns the text of a scalar. It accepts any scalar except null as a string: version: 1.10 is the
// string "1.10". For any other value, it adds an error and ok is false.
func (d *Decoder) Text(n *Node, path string) (text string, ok bool) {
	if d.describeScalar(n, shape.Form{Types: shape.Text()}) {
		return "", false
	}
	if n.Kind != Scalar || n.Tag == "!!null" {
		d.Errorf(n, path, "must be a string, not %s", Kind(n))
		return "", false
	}
	return n.Value, true
}

// String returns a reader of a string, see [Decoder.Text].
func (d *Decoder) String(to *string) Reader {
	return func(n *Node, path string) { *to, _ = d.Text(n, path) }
}

// NonEmpty returns a reader of a string that is not empty.
func (d *Decoder) NonEmpty(to *string) Reader {
	return func(n *Node, path string) {
		text, ok := d.Text(n, path)
		if ok && text == "" {
			d.Errorf(n, path, "must not be empty")
		}
		d.describeScalar(n, shape.Form{NotEmpty: true})
		*to = text
	}
}

// Settings returns a reader of a mapping that may have the given names. It calls set with the text of each scalar.
func Settings[Name ~string](d *Decoder, names []Name, set func(name Name, text string) error) Reader {
	known := make(Fields)
	for _, name := range names {
		known[string(name)] = func(n *Node, path string) {
			if n.Kind != Scalar {
				d.Errorf(n, path, "must be a number, not %s", Kind(n))
			} else if d.frame != nil {
				d.describeScalar(n, shape.Setting(func(text string) bool { return set(name, text) == nil }))
			} else if err := set(name, n.Value); err != nil {
				d.Error(n, path, err)
			}
		}
	}
	return func(n *Node, path string) { d.Mapping(n, path, known) }
}

// Append returns a reader that appends a string.
func (d *Decoder) Append(to *[]string) Reader {
	return func(n *Node, path string) {
		text, _ := d.Text(n, path)
		*to = append(*to, text)
	}
}

// Bool returns a reader of true or false.
func (d *Decoder) Bool(to *bool) Reader {
	return func(n *Node, path string) {
		if d.describeScalar(n, shape.Form{Types: []string{"boolean"}}) {
			return
		}
		if n.Tag != "!!bool" || n.Decode(to) != nil {
			d.Errorf(n, path, "must be true or false, not %s", Kind(n))
		}
	}
}

// Int returns a reader of an integer from least to most.
func (d *Decoder) Int(to *int, least, most int) Reader {
	return func(n *Node, path string) {
		var v int
		switch {
		case d.describeScalar(n, shape.Form{Types: []string{"integer"}, Least: &least, Most: &most}):
		case n.Tag != "!!int":
			d.Errorf(n, path, "must be an integer, not %s", Kind(n))
		case n.Decode(&v) != nil:
			d.Errorf(n, path, "%.40s is out of range", n.Value)
		case v < least:
			d.Errorf(n, path, "must be at least %d", least)
		case v > most:
			d.Errorf(n, path, "must be at most %d", most)
		default:
			*to = v
		}
	}
}

// Duration returns a reader of a duration that is not negative.
func (d *Decoder) Duration(to *time.Duration) Reader { return d.duration(to, 0) }

// PositiveDuration returns a reader of a duration above 0.
func (d *Decoder) PositiveDuration(to *time.Duration) Reader { return d.duration(to, 1) }

func (d *Decoder) duration(to *time.Duration, least time.Duration) Reader {
	return func(n *Node, path string) {
		form := shape.Duration()
		if least > 0 {
			form = shape.Form{Types: []string{"string"}, Pattern: form.Pattern}
		}
		if d.describeScalar(n, form) {
			return
		}
		v, err := time.ParseDuration(n.Value)
		switch {
		case err != nil || n.Kind != Scalar:
			d.Errorf(n, path, "must be a duration such as 50ms, 1s or 1m30s")
		case v < 0:
			d.Errorf(n, path, "must not be negative")
		case v < least:
			d.Errorf(n, path, "must be above 0")
		default:
			*to = v
		}
	}
}

// Parsed returns a reader of a string that parse converts to a value.
func Parsed[T any](d *Decoder, to *T, parse func(string) (T, error)) Reader {
	return func(n *Node, path string) {
		text, ok := d.Text(n, path)
		if !ok {
			return
		}
		value, err := parse(text)
		if err != nil {
			d.Error(n, path, err)
			return
		}
		*to = value
	}
}

// OneOf returns a reader of one of the known strings.
func OneOf[T ~string](d *Decoder, to *T, known ...T) Reader {
	return func(n *Node, path string) {
		text, ok := d.Text(n, path)
		switch {
		case ok && slices.Contains(known, T(text)):
			*to = T(text)
		default:
			names := make([]string, len(known))
			for i := range known {
				names[i] = string(known[i])
			}
			if ok {
				d.Errorf(n, path, "unknown value %.80q%s", text, Known(text, names))
			}
			d.describeScalar(n, shape.Form{Enum: names})
		}
	}
}

// Constant returns a reader of a string that must equal want.
func (d *Decoder) Constant(want string) Reader {
	return func(n *Node, path string) {
		if text, ok := d.Text(n, path); ok && text != want {
			d.Errorf(n, path, "must be %q, not %.80q", want, text)
		}
		d.describeScalar(n, shape.Form{Enum: []string{want}})
	}
}

// Digest returns a reader of a SHA-256 digest.
func (d *Decoder) Digest(to *string) Reader {
	return func(n *Node, path string) {
		text, ok := d.Text(n, path)
		switch {
		case !ok:
			d.describeScalar(n, shape.Form{Pattern: digest().String()})
		case !digest().MatchString(text):
			d.Errorf(n, path, "%.80q is not a digest: must be sha256: and 64 hexadecimal digits in lower case", text)
		default:
			*to = text
		}
	}
}

var digest = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^sha256:[0-9a-f]{64}$`) })

// Known returns the end of an error about an unknown name: the sorted known names, and a guess which one was
// meant.
func Known(name string, known []string) string {
	if len(known) == 0 {
		return ""
	}
	slices.Sort(known)
	if len(known) > maxListed {
		return fmt.Sprintf("; %d others are known", len(known)) + guess(name, known)
	}
	return "; known: " + strings.Join(known, ", ") + guess(name, known)
}

// Unknown adds an error about an unknown name of a kind, such as "module". It sorts known.
func (d *Decoder) Unknown(line int, path, kind, name string, known []string) {
	hint := ""
	if len(d.errs) < maxErrors { // otherwise nobody sees it
		hint = Known(name, known)
	}
	d.ErrorAt(line, path, fmt.Errorf("unknown %s %.80q%s", kind, name, hint))
}

// maxListed is the limit of the names that an error lists.
const maxListed = 50

// guess returns a question with the nearest known name; "" if no name is near.
func guess(name string, known []string) string {
	if near := nearest.Name(name, known); near != "" {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}

// Kind returns the type of n for errors, such as "a mapping".
func Kind(n *Node) string {
	switch n.Kind {
	case Mapping:
		return "a mapping"
	case List:
		return "a list"
	}
	switch n.Tag {
	case "!!str":
		return "a string"
	case "!!bool":
		return "a boolean"
	case "!!int", "!!float":
		return "a number"
	case "!!null":
		return "null"
	case "!!timestamp":
		return "a date"
	default:
		return "a value with the tag " + n.Tag
	}
}
