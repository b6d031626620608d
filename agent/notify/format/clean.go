package format

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMarks is the limit of consecutive combining characters.
const maxMarks = 3

// Clean returns text as one line of at most most characters. It removes terminal escape sequences, control
// characters, and characters that are invisible or change the direction of text, as a target may have
// written them. Each format additionally escapes its own markup.
func Clean(text string, most int) string {
	text = strings.ToValidUTF8(text[:min(len(text), 8*most)], "\ufffd")
	var b strings.Builder
	space, marks, n := false, 0, 0
	for text != "" {
		if rest := afterEscape(text); rest != text {
			text = rest
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		switch {
		case unicode.IsSpace(r) || unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp):
			space = b.Len() > 0
			continue
		case unicode.Is(unicode.Cf, r): // directions, joiners, tags
			continue
		case !unicode.IsPrint(r):
			r = '\ufffd'
		}
		if marks++; !unicode.Is(unicode.M, r) {
			marks = 0
		} else if marks > maxMarks {
			continue
		}
		if n++; n >= most {
			return b.String() + "…"
		}
		if space {
			b.WriteByte(' ')
			n++
		}
		space = false
		b.WriteRune(r)
	}
	return b.String()
}

// afterEscape returns text without the escape sequence at its begin, if any: CSI, OSC and similar, in the
// 7-bit and the 8-bit form.
func afterEscape(text string) string {
	var intro byte
	switch {
	case strings.HasPrefix(text, "\x1b") && len(text) > 1 && text[1] < utf8.RuneSelf && text[1] != '\x1b':
		intro, text = text[1], text[2:]
	case strings.HasPrefix(text, "\u009b"):
		intro, text = '[', text[2:]
	case strings.HasPrefix(text, "\u009d"):
		intro, text = ']', text[2:]
	default:
		return text
	}
	switch intro {
	case '[':
		end := strings.IndexFunc(text, func(r rune) bool { return r >= '@' && r <= '~' })
		if end < 0 {
			return ""
		}
		return text[end+1:]
	case ']', 'P', 'X', '^', '_': // ends with BEL or ST
		for i := range text {
			switch {
			case text[i] == '\a':
				return text[i+1:]
			case strings.HasPrefix(text[i:], "\x1b\\"), strings.HasPrefix(text[i:], "\u009c"):
				return text[i+2:]
			}
		}
		return ""
	default:
		return text
	}
}
