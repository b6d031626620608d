package main

import (
	"bytes"

	"github.com/daeace23/prober/sdk"
)

// value is a JSON value in a document that is known to be valid. It is decoded only when it is
// used: a document of many small values would fill the memory of the guest.
type value []byte

const space = " \t\r\n"

// kind returns '{', '[', '"', 't', 'f', 'n', or '0' for a number.
func (v value) kind() byte {
	if c := v[0]; c != '-' && (c < '0' || c > '9') {
		return c
	}
	return '0'
}

// text returns a string without its quotes, and anything else unchanged.
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

// members calls yield for the members of an object.
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

// trim removes space and punctuation between values.
func trim(doc []byte) []byte { return bytes.TrimLeft(doc, space+",:") }

// split returns the first value of doc and the rest.
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
			// a number or a word ends where anything else begins
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

// quoted returns the index of the last quote of the string that doc begins with.
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
