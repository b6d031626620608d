package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/sdk"
)

// document has every kind of value, optional space, and awkward names.
const document = ` {
	"store": {"book": [
		{"title": "one", "price": 8.95, "tags": ["a", "b"]},
		{"title": "two", "price": 12, "sold": true},
		{"title": "three", "price": 22.99, "isbn": "0-395"} ],
		"bicycle": {"color": "red", "price": 399}},
	"a.b": 1, "it's": {"\u00e9\"": -1.5e3}, "empty": {}, "none": [ ], "null": null,
	"twice": 1, "twice": 2, "limit": 10 } `

func TestPaths(t *testing.T) {
	for path, want := range map[string][]string{
		"$.store.book[0].title":                {"one"},
		"$['store']['book'][-1][\"title\"]":    {"three"},
		"$.store.book[3]":                      nil,
		"$.store.book[-4]":                     nil,
		"$.store.book[*].price":                {"8.95", "12", "22.99"},
		"$.store.book[0, 2].title":             {"one", "three"},
		"$.store.bicycle.*":                    {"red", "399"},
		"$..price":                             {"8.95", "12", "22.99", "399"},
		"$.store..[0]":                         {`{"title": "one", "price": 8.95, "tags": ["a", "b"]}`, "a"},
		"$..tags[*]":                           {"a", "b"},
		"$['a.b']":                             {"1"},
		"$['it\\'s'].*":                        {"-1.5e3"},
		`$["it's"]['é"']`:                      {"-1.5e3"},
		"$.empty.*":                            nil,
		"$.none[*]":                            nil,
		"$.null":                               {"null"},
		"$.null.x":                             nil,
		"$.twice":                              {"2"},
		"$.limit[0]":                           nil,
		"$.store.book[?@.price < 10].title":    {"one"},
		"$.store.book[?@.price >= 12].title":   {"two", "three"},
		"$.store.book[?@.price>$.limit].title": {"two", "three"},
		"$.store.book[?@.sold].title":          {"two"},
		"$.store.book[?!@.sold].title":         {"one", "three"},
		"$.store.book[?@.sold == true].title":  {"two"},
		"$.store.book[?@.title == 'one' || @.isbn].price":                             {"8.95", "22.99"},
		"$.store.book[?(@.price > 8 && @.price < 20) && !(@.title == \"two\")].title": {"one"},
		"$.store.book[?@.isbn != '0-395'].title":                                      {"one", "two"},
		"$.store.book[?@.title < 'q'].title":                                          {"one"},
		"$.store.book[?@.title <= 5].title":                                           nil,
		"$.store.book[?@.lost == @.missing].title":                                    {"one", "two", "three"},
		"$.store.book[?@.tags[1] == 'b'].title":                                       {"one"},
		"$.store[?@.color == 'red'].price":                                            {"399"},
		"$[?@ == null]":                                                               {"null"},
		"$[?@ == 1.0]":                                                                {"1", "1"},
	} {
		p, err := parsePath(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		root, _ := split(trim([]byte(document)))
		found, err := p.find(root, root)
		var got []string
		for _, v := range found {
			got = append(got, v.text())
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", path, err, diff)
		}
	}
}

func TestBadPaths(t *testing.T) {
	for path, want := range map[string]string{
		"":                                "begins with $",
		"a":                               "begins with $",
		"$a":                              `expected . or [ at "a"`,
		"$.":                              "expected a name at the end",
		"$.a-b":                           `expected a name with - in quotes, as in ['a-b'], at "-b"`,
		"$.a[":                            "expected a name in quotes, a number, * or ? at the end",
		"$.a[0":                           "expected , or ] at the end",
		"$.a[1:2]":                        `expected , or ] at ":2]"`,
		"$.a[x]":                          `a number, * or ? at "x]"`,
		"$['a":                            "expected the other quote",
		`$['\n']`:                         `the only escapes are`,
		"$[?@.a ==]":                      `expected @, $, a quoted string`,
		"$[?'a']":                         "expected a comparison",
		"$[?(@.a]":                        "expected )",
		"$[?@.a == nul]":                  "expected @, $, a quoted string",
		"$[?@.a == 'b' &&]":               "expected @, $, a quoted string",
		"$[99999999999999999999]":         "a number, * or ?",
		"$[?" + strings.Repeat("(", 1000): "expected less nesting",
	} {
		if _, err := parsePath(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %v, want %q", path, err, want)
		}
	}
}

func TestTooManyValues(t *testing.T) {
	doc := []byte("[" + strings.TrimSuffix(strings.Repeat("[1,2,3],", 5000), ",") + "]")
	c, err := sdk.NewConfig([]byte(`{"jsonPath":"$[*][*]"}`))
	if err != nil {
		t.Fatal(err)
	}
	all, err := assertions(c)
	if err != nil {
		t.Fatal(err)
	}
	if got := judge(all, 200, doc); got.Output != "$[*][*]: the path finds more than 10000 values" {
		t.Errorf("got %+v", got)
	}
}

// FuzzPath reads paths and finds their values in documents.
func FuzzPath(f *testing.F) {
	f.Add("$.store.book[?@.price < 10 && !(@.a || $.b)].title", document)
	f.Add("$..['a', -1, *]", `[[1,"\""],{"a":{}}]`)
	f.Fuzz(func(t *testing.T, path, doc string) {
		p, err := parsePath(path)
		if err != nil || !sdk.ValidJSON([]byte(doc)) {
			return
		}
		root, _ := split(trim([]byte(doc)))
		found, _ := p.find(root, root)
		for _, v := range found {
			if !sdk.ValidJSON(v) {
				t.Errorf("%q finds %q", path, v)
			}
		}
	})
}
