package field_test

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/daeace23/prober/plugin/plugintest/internal/field"
)

func TestMarshal(t *testing.T) {
	for want, value := range map[string]any{
		"plain":              field.Text("plain"),
		`"a\nb\t"`:           field.Text("a\nb\t"),
		`[a, "b\n", "1"]`:    field.List{"a", "b\n", "1"},
		`{text: "HELO\r\n"}`: field.Data("HELO\r\n"),
		"{hex: 00ff}":        field.Data("\x00\xff"),
		"hex: |-\n    " + strings.Repeat("00", 40) + "\n    00": field.Data(make([]byte, 41)),
		`{a: [1, x, "2", true]}`:                                field.JSON(`{"a":[1,"x","2",true]}`),
		`{a: "\t"}`:                                             field.JSON("{\"a\":\t\"\\t\"}"),
	} {
		got, err := yaml.Marshal(value)
		if text := strings.TrimSpace(string(got)); err != nil || text != want {
			t.Errorf("got %s, %v, want %s", text, err, want)
		}
	}
}

func TestQuote(t *testing.T) {
	for data, want := range map[string]string{
		"hi\r\n": `"hi\r\n"`, "\x00hi": "hex 006869", "ü": "hex c3bc",
		strings.Repeat("a", 201): `"` + strings.Repeat("a", 200) + `"…`,
	} {
		if got := field.Quote([]byte(data)); got != want {
			t.Errorf("%q: got %s, want %s", data, got, want)
		}
	}
}

// A Literal is the source of a pattern that matches its text alone.
func TestLiteralMatchesItsText(t *testing.T) {
	for _, text := range []string{"", "/", "plain", "/a.b/", "//"} {
		r := field.NewReader("x.yaml")
		var p field.Pattern
		node := &yaml.Node{}
		node.SetString(field.Literal(text))
		r.Pattern(&p)(node, "x")
		if err := r.Err(); err != nil || !p.Matches(text) || p.Matches(text+"x") || p.Matches(strings.Replace(text, ".", "-", 1)) && strings.Contains(text, ".") {
			t.Errorf("%q: the pattern %q does not match it alone, %v", text, p.Source, err)
		}
	}
}
