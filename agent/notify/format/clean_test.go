package format_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/daeace23/prober/agent/notify/format"
)

// A target chooses the text: an escape character may be followed by a character of several bytes.
func TestCleanEscapeBeforeWideCharacter(t *testing.T) {
	for text, want := range map[string]string{
		"\x1b":              "",
		"\x1b\xff":          "�",
		"\x1bé":             "é",
		"a\x1bé\x1b😀":       "a é 😀",
		"\x1b\u009b31mred":  "red",
		"\x1b\x1b[31mred":   "red",
		"\x1b[31\xff":       "",
		"\x1b]0;title\x1bé": "",
	} {
		if got := format.Clean(text, 100); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestCleanRandomBytes(t *testing.T) {
	parts := []string{"\x1b", "\x1b[", "\x1b]", "\u009b", "\u009d", "\u009c", "\xff", "\xc3", "é", "😀", "a", " ", "\a", "m", "\u0301", "\u202e"}
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		var b strings.Builder
		for range r.IntN(12) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		if got := format.Clean(b.String(), 8); !utf8.ValidString(got) || strings.ContainsAny(got, "\x1b\a\u009b\u202e") || utf8.RuneCountInString(got) > 9 {
			t.Fatalf("%q: %q", b.String(), got)
		}
	}
}
