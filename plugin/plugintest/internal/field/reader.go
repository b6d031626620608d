// Package field extends package yamlpos by field types of test files and sessions. Read reader.go
// first, then writer.go.
package field

import (
	"encoding/hex"
	"errors"
	"regexp"
	"strings"

	"github.com/daeace23/prober/internal/yamlpos"
)

// Read reads the value at a path.
type Read = yamlpos.Reader

// Reader reads the fields of one file.
type Reader struct {
	yamlpos.Decoder
	NoCommands bool // a peer that is a process is an error
	others     []error
}

// NewReader returns a reader whose errors name a file.
func NewReader(file string) *Reader { return &Reader{Decoder: yamlpos.Decoder{File: file}} }

// AddOther adds an error about another file.
func (r *Reader) AddOther(err error) { r.others = append(r.others, err) }

// Err returns all errors, joined.
func (r *Reader) Err() error { return errors.Join(r.Decoder.Err(), errors.Join(r.others...)) }

// Parsed reads a string with parse.
func Parsed[T any](r *Reader, to *T, parse func(string) (T, error)) Read {
	return yamlpos.Parsed(&r.Decoder, to, parse)
}

// Pattern is an exact text, or a regular expression between slashes.
type Pattern struct {
	Source string
	regex  *regexp.Regexp
}

// IsRegex reports whether the pattern is a regular expression.
func (p Pattern) IsRegex() bool { return p.regex != nil }

// Matches reports whether the pattern matches text.
func (p Pattern) Matches(text string) bool {
	if p.regex != nil {
		return p.regex.MatchString(text)
	}
	return p.Source == text
}

func isRegex(text string) bool {
	return len(text) > 1 && text[0] == '/' && text[len(text)-1] == '/'
}

// Pattern reads an exact text, or /a regular expression/.
func (r *Reader) Pattern(to *Pattern) Read {
	return Parsed(r, to, func(text string) (p Pattern, err error) {
		p.Source = text
		if isRegex(text) {
			p.regex, err = regexp.Compile(text[1 : len(text)-1])
		}
		return p, err
	})
}

// Literal returns the source of a [Pattern] that matches a text exactly.
func Literal(text string) string {
	if isRegex(text) {
		return "/^" + regexp.QuoteMeta(text) + "$/"
	}
	return text
}

// Bytes reads bytes from {text: …} or {hex: …}.
func (r *Reader) Bytes(n *yamlpos.Node, path string, to *[]byte) { r.One(n, path, r.BytesFields(to)) }

// BytesFields are the fields text and hex, which both give bytes.
func (r *Reader) BytesFields(to *[]byte) map[string]Read {
	return map[string]Read{"text": r.RawText(to), "hex": r.Hex(to)}
}

// RawText reads bytes from a string that is not empty.
func (r *Reader) RawText(to *[]byte) Read {
	return r.notEmpty(to, func(text string) ([]byte, error) { return []byte(text), nil })
}

// Hex reads bytes from hexadecimal digits, between which space does not count.
func (r *Reader) Hex(to *[]byte) Read {
	return r.notEmpty(to, func(text string) ([]byte, error) {
		return hex.DecodeString(strings.Join(strings.Fields(text), ""))
	})
}

func (r *Reader) notEmpty(to *[]byte, decode func(string) ([]byte, error)) Read {
	return Parsed(r, to, func(text string) ([]byte, error) {
		if text == "" {
			return nil, errors.New("must not be empty")
		}
		return decode(text)
	})
}
