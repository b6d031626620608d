package explain

import (
	"strings"
	"unicode"
)

// OneLine returns text as one line for a terminal. It replaces control characters and line breaks by spaces, and
// invalid UTF-8 and characters that change the direction of text by U+FFFD.
func OneLine(text string) string {
	text = strings.ToValidUTF8(strings.TrimSpace(text), "\ufffd")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		if unicode.Is(unicode.Bidi_Control, r) {
			return '\ufffd'
		}
		return r
	}, text)
}

// Task returns the name of a task: "namespace/pod/container", without leading and trailing parts that are "".
func Task(namespace, pod, container string) string {
	return strings.Trim(strings.Join([]string{namespace, pod, container}, "/"), "/")
}
