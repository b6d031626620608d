// Package clip cuts texts that are too long to be shown or kept. It cuts no character, and drops bytes that
// are not UTF-8 from the texts that it cuts.
package clip

import (
	"strings"
	"unicode/utf8"
)

// Bytes returns the beginning of text, of at most most bytes.
func Bytes(text string, most int) string { return Marked(text, most, "") }

// Text is [Bytes] with "…" at the end of a text that was cut, which is part of most.
func Text(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return Marked(text, most-len("…"), "…")
}

// Marked is [Bytes] with mark after a text that was cut, beyond most.
func Marked(text string, most int, mark string) string {
	if len(text) <= most {
		return text
	}
	end := most // before a character that would be cut, so that ToValidUTF8 need not copy valid text
	for end > 0 && most-end < utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.ToValidUTF8(text[:end], "") + mark
}
