// Package clip truncates texts that are too long to be shown or kept. It does not split characters, and drops invalid
// UTF-8 from the texts that it truncates.
package clip

import (
	"strings"
	"unicode/utf8"
)

// Bytes returns the beginning of text, at most most bytes.
func Bytes(text string, most int) string { return Marked(text, most, "") }

// Text is [Bytes] with "…" at the end of a truncated text. The "…" counts for most.
func Text(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return Marked(text, most-len("…"), "…")
}

// Marked is [Bytes] with mark after a truncated text. The mark does not count for most.
func Marked(text string, most int, mark string) string {
	if len(text) <= most {
		return text
	}
	end := most // move before a split character, so that ToValidUTF8 need not copy valid text
	for end > 0 && most-end < utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.ToValidUTF8(text[:end], "") + mark
}
