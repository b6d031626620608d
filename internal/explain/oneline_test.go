package explain_test

import (
	"testing"

	"github.com/daeace23/prober/internal/explain"
)

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "",
		" a\tb\r\nc\n":                         "a b  c",
		"\x1b[31mred\x7f\u009b":                " [31mred  ",
		"a\u202eb\u2066c":                      "a\ufffdb\ufffdc",
		"a\u2028b\u2029c":                      "a b c",
		"cut \xe2\x82, then \u00e9 and \u20ac": "cut \ufffd, then \u00e9 and \u20ac",
	} {
		if got := explain.OneLine(text); got != want {
			t.Errorf("OneLine(%q): got %q, want %q", text, got, want)
		}
	}
}
