package yamlpos_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/internal/yamlpos"
)

// parse returns the JSON and the errors of a document.
func parse(text string) (doc string, errs []string) {
	d := yamlpos.Decoder{File: "f"}
	if root := d.Parse([]byte(text), 1<<20); root != nil {
		var out []byte
		d.JSON(&out)(root, "")
		doc = string(out)
	}
	for _, err := range d.Errors() {
		errs = append(errs, err.Error())
	}
	return doc, errs
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ name, text, doc, errs string }{
		{name: "mapping", text: "a: 1\nb: [x, 1.5, true, null]\n", doc: `{"a":1,"b":["x",1.5,true,null]}`},
		{name: "alias", text: "a: &x {b: 1}\nc: [*x, *x]\n", doc: `{"a":{"b":1},"c":[{"b":1},{"b":1}]}`},
		{name: "alias as a name", text: "a: &x b\n*x : 1\n", doc: `{"a":"b","b":1}`},
		{name: "date is a string", text: "a: 2001-02-03\n", doc: `{"a":"2001-02-03"}`},
		{name: "number as a name", text: "1: a\n", doc: `{"1":"a"}`},
		{name: "empty", text: "# nothing\n", errs: "f:1: the file is empty"},
		{name: "null", text: "---\n", errs: "f:1: the file is empty"},
		{name: "two documents", text: "a: 1\n---\nb: 1\n", errs: "f:3: must be one document: another one begins here"},
		{name: "syntax", text: "a: [\n", errs: "f:1: did not find expected node content"},
		{name: "syntax of a second document", text: "a: 1\n---\n\tb\n", errs: "f:3: found character that cannot start any token, such as a tab: indent with spaces"},
		{name: "unknown anchor", text: "a: *b\n", errs: "f:1: unknown anchor 'b' referenced"},
		{name: "field set twice", text: "a: {b: 1, b: 2}\n", doc: `{"a":{"b":1}}`, errs: "f:1: a.b: the field is set twice"},
		{name: "merge key", text: "a: &x {b: 1}\nc:\n  <<: *x\n", doc: `{"a":{"b":1},"c":{}}`, errs: "f:3: c: merge keys (<<) are not supported"},
		{name: "name is a list", text: "a:\n  ? [x]\n  : 1\n", doc: `{"a":{}}`, errs: "f:2: a: the name of a field must be a string, not a list"},
		{name: "too deep", text: strings.Repeat("[", 102) + strings.Repeat("]", 102), errs: "f:1: the document has more than 100 levels"},
		{name: "alias of itself", text: "a: &a [*a]\n", errs: "f:1: the document has more than 100 levels"},
		{name: "infinity", text: "a: .inf\n", errs: "f:1: a: must be a value that JSON can represent"},
		{name: "too many bytes", text: strings.Repeat(" ", 1<<20+1), errs: "f:1: must be at most 1048576 bytes"},
		{
			name: "aliases of a long text", text: "a: &a " + strings.Repeat("x", 100_000) + "\nb: [*a" + strings.Repeat(", *a", 200) + "]\n",
			errs: "f:1: the document is too large with its aliases written out",
		},
		{
			name: "aliases of aliases", errs: "f:1: the document is too large with its aliases written out",
			text: "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
				"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e]\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc, errs := parse(c.text)
			if doc != c.doc {
				t.Errorf("got %s, want %s", doc, c.doc)
			}
			if got := strings.Join(errs, "\n"); got != c.errs {
				t.Errorf("got %s, want %s", got, c.errs)
			}
		})
	}
}

func TestAll(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\n---\n---\nb: 2\n":  "1 4",
		"a: 1\n---\nb: [\n":       "1: f:3: did not find expected node content",
		"# nothing\n---\n":        "",
		"a: 1\n---\na: 1\na: 1\n": "1 3: f:4: a: the field is set twice",
	} {
		d := yamlpos.Decoder{File: "f"}
		var got string
		for root := range d.All([]byte(text), 1<<20) {
			got += " " + string(rune('0'+root.Line))
		}
		if err := d.Err(); err != nil {
			got += ": " + err.Error()
		}
		if got = strings.TrimSpace(got); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestReaders(t *testing.T) {
	type Level string
	read := func(text string, reader func(*yamlpos.Decoder) yamlpos.Reader) string {
		d := yamlpos.Decoder{File: "f"}
		root := d.Parse([]byte("a: "+text+"\n"), 1<<20)
		d.Mapping(root, "", yamlpos.Fields{"a": reader(&d)})
		if err := d.Err(); err != nil {
			return strings.TrimPrefix(err.Error(), "f:1: a: ")
		}
		return ""
	}
	var (
		s    string
		list []string
		b    bool
		i    int
		dur  time.Duration
		l    Level
		num  json.Number
	)
	for _, c := range []struct {
		text   string
		reader func(*yamlpos.Decoder) yamlpos.Reader
		want   string
	}{
		{"x", func(d *yamlpos.Decoder) yamlpos.Reader { return d.String(&s) }, ""},
		{"1.10", func(d *yamlpos.Decoder) yamlpos.Reader { return d.String(&s) }, ""},
		{"[x]", func(d *yamlpos.Decoder) yamlpos.Reader { return d.String(&s) }, "must be a string, not a list"},
		{"", func(d *yamlpos.Decoder) yamlpos.Reader { return d.String(&s) }, "must be a string, not null"},
		{"''", func(d *yamlpos.Decoder) yamlpos.Reader { return d.NonEmpty(&s) }, "must not be empty"},
		{"[x, y]", func(d *yamlpos.Decoder) yamlpos.Reader { return d.ListOf(d.Append(&list)) }, ""},
		{"x", func(d *yamlpos.Decoder) yamlpos.Reader { return d.ListOf(d.Append(&list)) }, "must be a list, not a string"},
		{"true", func(d *yamlpos.Decoder) yamlpos.Reader { return d.Bool(&b) }, ""},
		{"1", func(d *yamlpos.Decoder) yamlpos.Reader { return d.Bool(&b) }, "must be true or false, not a number"},
		{"5", func(d *yamlpos.Decoder) yamlpos.Reader { return d.Int(&i, 1, 5) }, ""},
		{"0", func(d *yamlpos.Decoder) yamlpos.Reader { return d.Int(&i, 1, 5) }, "must be at least 1"},
		{"6", func(d *yamlpos.Decoder) yamlpos.Reader { return d.Int(&i, 1, 5) }, "must be at most 5"},
		{"'5'", func(d *yamlpos.Decoder) yamlpos.Reader { return d.Int(&i, 1, 5) }, "must be an integer, not a string"},
		{"99999999999999999999", func(d *yamlpos.Decoder) yamlpos.Reader { return d.Int(&i, 1, 5) }, "must be an integer, not a number"},
		{"1s", func(d *yamlpos.Decoder) yamlpos.Reader { return d.Duration(&dur) }, ""},
		{"5", func(d *yamlpos.Decoder) yamlpos.Reader { return d.Duration(&dur) }, "must be a duration such as 50ms, 1s or 1m30s"},
		{"-1s", func(d *yamlpos.Decoder) yamlpos.Reader { return d.Duration(&dur) }, "must not be negative"},
		{"0s", func(d *yamlpos.Decoder) yamlpos.Reader { return d.PositiveDuration(&dur) }, "must be above 0"},
		{"hot", func(d *yamlpos.Decoder) yamlpos.Reader { return yamlpos.OneOf(d, &l, "high", "low") }, `unknown value "hot"; known: high, low (did you mean "low"?)`},
		{"low", func(d *yamlpos.Decoder) yamlpos.Reader { return yamlpos.OneOf(d, &l, "high", "low") }, ""},
		{"v2", func(d *yamlpos.Decoder) yamlpos.Reader { return d.Constant("v1") }, `must be "v1", not "v2"`},
		{"x", func(d *yamlpos.Decoder) yamlpos.Reader { return d.Object(new([]byte)) }, "must be a mapping, not a string"},
		{"{b: 1}", func(d *yamlpos.Decoder) yamlpos.Reader {
			return func(n *yamlpos.Node, path string) { d.Mapping(n, path, yamlpos.Fields{"bb": nil, "c": nil}, "c") }
		}, "b: unknown field; known: bb, c (did you mean \"bb\"?)\nf:1: a.c: the field is required"},
		{"{b: 1, c: 1}", func(d *yamlpos.Decoder) yamlpos.Reader {
			return func(n *yamlpos.Node, path string) {
				d.One(n, path, yamlpos.Fields{"b": d.String(&s), "c": d.String(&s)})
			}
		}, "must have exactly one of b, c"},
		{"x", func(d *yamlpos.Decoder) yamlpos.Reader {
			return yamlpos.Parsed(d, &num, func(string) (json.Number, error) { return "", errors.Join(errors.New("one"), errors.New("two")) })
		}, "one\nf:1: a: two"},
	} {
		if got := strings.TrimPrefix(read(c.text, c.reader), "f:1: a."); got != c.want {
			t.Errorf("%s: got %q, want %q", c.text, got, c.want)
		}
	}
}

func TestInto(t *testing.T) {
	type Inner struct {
		Names []string       `json:"names"`
		Port  map[string]int `json:"port"`
	}
	type Embedded struct {
		Time time.Time `json:"time"`
	}
	type Outer struct {
		Embedded `json:",inline"`

		Inner *Inner  `json:"inner"`
		On    *bool   `json:"on"`
		Part  float64 `json:"part"`
	}
	d := yamlpos.Decoder{File: "f"}
	var got Outer
	root := d.Parse([]byte("time: 2020-01-02T03:04:05Z\ninner: {names: [a, &x b], port: {c.d: 1}}\non: true\npart: 1\n"), 1<<20)
	if !d.Into(root, "", &got) {
		t.Fatal(d.Err())
	}
	want := Outer{Embedded{time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)}, &Inner{[]string{"a", "b"}, map[string]int{"c.d": 1}}, new(true), 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	root = d.Parse([]byte("time: soon\ninner:\n  nams: [a]\n  names: [1]\n  port: {c.d: x}\non: 1\npart: 1e999\n"), 1<<20)
	if d.Into(root, "", &got) {
		t.Fatal("no error")
	}
	lines := strings.Split(d.Err().Error(), "\n")
	wantLines := []string{
		`f:1: time: parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006"`,
		`f:3: inner.nams: unknown field; known: names, port (did you mean "names"?)`,
		"f:4: inner.names[0]: must be a string, not a number",
		"f:5: inner.port[c.d]: must be an integer, not a string",
		"f:6: on: must be true or false, not a number",
		"f:7: part: must be a number, not a string",
	}
	if diff := cmp.Diff(wantLines, lines); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestLoose(t *testing.T) {
	type Module struct {
		Name   string            `json:"name"`
		Any    any               `json:"any"`
		Bools  []bool            `json:"bools"`
		Labels map[string]string `json:"labels"`
	}
	const text = `
a: &a {name: 1.0, any: {x: [1]}, bools: [yes, off, true], labels: &l {x: 1, y: yes}}
b: {<<: *a, name: b, labels: {<<: [*l, {z: 3, x: 4}], y: 2}}
`
	d := yamlpos.Decoder{File: "f", Loose: true}
	var got map[string]Module
	if !d.Into(d.Parse([]byte(text), 1<<20), "", &got) {
		t.Fatal(d.Err())
	}
	want := map[string]Module{
		"a": {"1.0", map[string]any{"x": []any{1.0}}, []bool{true, false, true}, map[string]string{"x": "1", "y": "yes"}},
		"b": {"b", map[string]any{"x": []any{1.0}}, []bool{true, false, true}, map[string]string{"x": "1", "y": "2", "z": "3"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for text, want := range map[string]string{
		"a: {name: [x]}":           "f:1: a.name: must be a string, not a list",
		"a: {name: !!binary aGk=}": "f:1: a.name: must be a string, not a value with the tag !!binary",
		"a: {bools: ['true']}":     "f:1: a.bools[0]: must be true or false, not a string",
		"a: {<<: x}":               "f:1: a.<<: must be a mapping, not a string",
		"a: &a {<<: [*a, *a]}":     "f:1: the document has more than 100 levels",
		"a: &a {b: {<<: {c: *a}}}": "f:1: the document has more than 100 levels",
		"a: &a {b: {<<: *a}}":      "f:1: the document has more than 100 levels",
	} {
		d := yamlpos.Decoder{File: "f", Loose: true}
		if root := d.Parse([]byte(text), 1<<20); root != nil {
			d.Into(root, "", &got)
		}
		if err := d.Err(); err == nil || err.Error() != want {
			t.Errorf("%s: error %v; want %s", text, err, want)
		}
	}
}

func TestLine(t *testing.T) {
	d := yamlpos.Decoder{File: "f"}
	root := d.Parse([]byte("a:\n  b.c:\n  - x\n  - y: |\n      z:\n        w: 1\n"), 1<<20)
	for path, want := range map[string]int{
		"": 1, "a": 1, "a[b.c]": 2, "a[b.c][0]": 3, "a[b.c][1].y": 4, "a[b.c][1].y.z": 5, "a[b.c][1].y.z.w": 6, "a[b.c][1].y.z.v": 5, "a[b.c][7]": 2,
	} {
		if got := yamlpos.Line(root, path); got != want {
			t.Errorf("%q: line %d, want %d", path, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a: &a [*a]\n<<: *a\n? [x]\n: y\n")
	f.Add("a: &x {b: 1, b: 2}\nc: [*x, .nan, 0x10, 2001-01-01, !!binary aGk=, !t x]\n---\n")
	f.Add("a: &a {<<: [*a, x]}\nc: {<<: {a: y}, d: on}\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, loose := range []bool{false, true} {
			fuzzParse(t, text, loose)
		}
	})
}

func fuzzParse(t *testing.T, text string, loose bool) {
	d := yamlpos.Decoder{File: "f", Loose: loose}
	for root := range d.All([]byte(text), 1<<16) {
		before := len(d.Errors())
		var doc []byte
		d.JSON(&doc)(root, "")
		if len(d.Errors()) == before && !json.Valid(doc) {
			t.Errorf("%q is not JSON", doc)
		}
		yamlpos.Line(root, "a[0].b")
		d.Into(root, "", new(struct {
			A []string          `json:"a"`
			C map[string]string `json:"c"`
		}))
	}
	for _, err := range d.Errors() {
		if e, ok := errors.AsType[*yamlpos.Error](err); !ok || e.Line < 1 || e.Err.Error() == "" {
			t.Errorf("%v has no place or no text", err)
		}
	}
}
