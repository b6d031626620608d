package importcmd

import (
	"fmt"
	"slices"
	"strings"
)

// token is a word, a string, a comparison or the text in braces of monit's control file.
type token struct {
	text   string
	line   int
	quoted bool
}

// is reports whether the token is one of some words.
func (t token) is(words ...string) bool {
	return !t.quoted && slices.Contains(words, strings.ToLower(t.text))
}

// monitTokens splits a control file.
func monitTokens(in input) (all []token, err error) {
	text, line := string(in.text), 1
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '\n':
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r' || c == ',' || c == ';':
			i++
		case c == '#':
			if end := strings.IndexByte(text[i:], '\n'); end >= 0 {
				i += end
			} else {
				i = len(text)
			}
		case c == '"' || c == '\'' || c == '{' || c == '[':
			close := map[byte]byte{'"': '"', '\'': '\'', '{': '}', '[': ']'}[c]
			end := strings.IndexByte(text[i+1:], close)
			if end < 0 {
				return nil, fmt.Errorf("%s:%d: %c has no end", in.name, line, c)
			}
			all = append(all, token{text[i+1 : i+1+end], line, true})
			line += strings.Count(text[i:i+1+end], "\n")
			i += end + 2
		case strings.IndexByte("=<>!()", c) >= 0:
			end := i + 1
			for end < len(text) && strings.IndexByte("=<>", text[end]) >= 0 && c != '(' && c != ')' {
				end++
			}
			all = append(all, token{text[i:end], line, false})
			i = end
		default:
			end := i
			for end < len(text) && strings.IndexByte(" \t\r\n,;\"'{}=<>!()#", text[end]) < 0 {
				end++
			}
			if end == i { // a brace without its beginning
				return nil, fmt.Errorf("%s:%d: %q is not expected", in.name, line, c)
			}
			all = append(all, token{text[i:end], line, false})
			i = end
		}
	}
	return all, nil
}

// statement is a part of a control file that begins with set, check or include.
type statement struct {
	file   string
	tokens []token
}

// at returns the position of the i-th token.
func (s *statement) at(i int) position {
	path := ""
	for _, t := range s.tokens[:min(len(s.tokens), 3)] {
		if t.quoted || len(path) > 60 || strings.Contains(t.text, "://") { // a URL may have a password
			break
		}
		path = strings.TrimSpace(path + " " + t.text)
	}
	return position{s.file, s.tokens[min(i, len(s.tokens)-1)].line, path}
}

// monitStatements splits the tokens of a file into statements.
func monitStatements(in input) (all []*statement, err error) {
	tokens, err := monitTokens(in)
	if err != nil {
		return nil, err
	}
	for i, t := range tokens {
		if t.is("set", "check", "include") && (i == 0 || tokens[i-1].line != t.line || isStatement(tokens, i)) {
			all = append(all, &statement{file: in.name})
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("%s:%d: %.40q is not expected: a statement begins with set, check or include", in.name, t.line, t.text)
		}
		last := all[len(all)-1]
		last.tokens = append(last.tokens, t)
	}
	return all, nil
}

// isStatement reports whether a word within a line begins a statement.
func isStatement(tokens []token, i int) bool {
	return tokens[i].is("check") && i+1 < len(tokens) && tokens[i+1].is("host", "process", "file", "filesystem", "device", "directory", "fifo", "program", "system", "network")
}

// reader reads the tokens of a statement.
type monitReader struct {
	s *statement
	i int
}

// noise has words that monit skips.
var noise = []string{"and", "with", "within", "has", "using", "use", "on", "only", "of"}

// peek returns the next token that is not noise; an empty one at the end.
func (r *monitReader) peek() token {
	for r.i < len(r.s.tokens) && r.s.tokens[r.i].is(noise...) {
		r.i++
	}
	if r.i == len(r.s.tokens) {
		return token{}
	}
	return r.s.tokens[r.i]
}

func (r *monitReader) ended() bool { r.peek(); return r.i == len(r.s.tokens) }

// next returns the next token, and moves behind it.
func (r *monitReader) next() token {
	t := r.peek()
	if r.i < len(r.s.tokens) {
		r.i++
	}
	return t
}

// take moves behind the next token if it is one of some words.
func (r *monitReader) take(words ...string) bool {
	if r.ended() || !r.peek().is(words...) {
		return false
	}
	r.i++
	return true
}

// at returns the position of the next token.
func (r *monitReader) at() position { return r.s.at(r.i) }

// value returns the next token after an optional equals sign.
func (r *monitReader) value() string {
	r.take("=")
	return r.next().text
}
