package api

import (
	"strings"
	"unicode"
)

// OneLine returns text as one line of valid UTF-8, safe for terminals. It drops control characters and format
// characters, such as those that change the direction of text, which a target or the author of a pod may have
// written. Texts longer than 8 times the maximum message are truncated.
func OneLine(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), 8*maxMessage)], "")
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r) || unicode.In(r, unicode.Zl, unicode.Zp):
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, text)), " ")
}
