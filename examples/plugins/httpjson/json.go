package main

import (
	"bytes"

	"github.com/daeace23/prober/sdk"
)

// value is a JSON value as it stands in a document that is known to be valid. Nothing is
// decoded before it is looked at: a document of many small values would fill the guest's
// memory.
type value []byte

const space = " \t\r\n"

// kind returns '{', '[', '"', 't', 'f', 'n' or, of a number, '0'.
func (v value) kind() byte {
	if c := v[0]; c != '-' && (c < '0' || c > '9') {
		return c
	}
	return '0'
}

// text returns a string without its quotes, and anything else as it stands.
func (v value) text() string {
	if v[0] != '"' {
		return string(v)
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1])
	}
	doc := append(append([]byte(`{"v":`), v...), '}')
	text, _ := sdk.Lookup(doc, "v")
	return text
}

// members goes through an object.
func (v value) members(yield func(name string, member value) bool) {
	if v.kind() != '{' {
		return
	}
	for rest := trim(v[1:]); rest[0] != '}'; rest = trim(rest) {
		name, after := split(rest)
		member, after := split(trim(after))
		if !yield(name.text(), member) {
			return
		}
		rest = after
	}
}

// items goes through an array.
func (v value) items(yield func(item value) bool) {
	if v.kind() != '[' {
		return
	}
	for rest := trim(v[1:]); rest[0] != ']'; rest = trim(rest) {
		item, after := split(rest)
		if !yield(item) {
			return
		}
		rest = after
	}
}

// children goes through the values of an object or array.
func (v value) children(yield func(child value) bool) {
	v.items(yield)
	v.members(func(_ string, member value) bool { return yield(member) })
}

// trim takes off what stands between values.
func trim(doc []byte) []byte { return bytes.TrimLeft(doc, space+",:") }

// split takes the first value off doc, which begins with it.
func split(doc []byte) (first value, rest []byte) {
	depth := 0
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			i += quoted(doc[i:])
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		default:
			if depth > 0 {
				continue
			}
			// A number or a word lasts until something else begins.
			for i+1 < len(doc) && bytes.IndexByte([]byte(space+",:]}"), doc[i+1]) < 0 {
				i++
			}
		}
		if depth == 0 {
			return doc[:i+1], doc[i+1:]
		}
	}
	return doc, nil
}

// quoted returns where the string that doc begins with ends: the index of its last quote.
func quoted(doc []byte) int {
	for i := 1; i < len(doc); i++ {
		switch doc[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(doc) - 1
}
