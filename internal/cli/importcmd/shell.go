package importcmd

import "strings"

// splitShell splits a command line into words as a shell does, without expansions. ok is false if a shell is
// needed, or a quote has no end.
func splitShell(line string) (words []string, ok bool) {
	var word strings.Builder
	inWord := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ', '\t', '\n':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		case '\'', '"':
			end := closingQuote(line[i+1:], c)
			if end < 0 {
				return nil, false
			}
			text := line[i+1 : i+1+end]
			if c == '"' {
				if strings.ContainsAny(text, "`") {
					return nil, false
				}
				text = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\$`, "$").Replace(text)
			}
			word.WriteString(text)
			inWord, i = true, i+1+end
		case '\\':
			if i++; i == len(line) {
				return nil, false
			}
			word.WriteByte(line[i])
			inWord = true
		case '|', '&', ';', '<', '>', '`', '(', ')':
			return nil, false
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, true
}

// closingQuote returns the index of the closing quote; -1 if there is none.
func closingQuote(text string, quote byte) int {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote == '"':
			i++
		case text[i] == quote:
			return i
		}
	}
	return -1
}
