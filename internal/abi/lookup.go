package abi

import (
	"strconv"
	"strings"
)

// Lookup returns the value at a dotted path such as "replicas.0.host" in a JSON document. A number is an
// index into an array. ok is false if there is no value or if it is null. If an object has a name twice, the
// last one is used, as in encoding/json.
func Lookup(doc []byte, path string) (value []byte, ok bool) {
	value = doc
	for step := range strings.SplitSeq(path, ".") {
		if value = member(value, step); value == nil {
			return nil, false
		}
	}
	return value, string(value) != "null"
}

// member returns the value of name in the object or array doc, or nil.
func member(doc []byte, name string) (value []byte) {
	s := transient(doc)
	take := func(here bool) error {
		raw, err := s.raw()
		if here && err == nil {
			value = raw
		}
		return err
	}
	switch s.next() {
	case '{':
		_ = s.object(func(field string) error { return take(field == name) })
	case '[':
		index, err := strconv.Atoi(name)
		if err != nil {
			return nil
		}
		_ = s.array(func(i int) error { return take(i == index) })
	}
	return value
}

// Text returns a JSON value in the form of config_get: a string without quotes and escapes, and other values
// unchanged.
func Text(value []byte) string {
	s := scanner{data: value}
	if s.next() == '"' {
		if text, err := s.str(); err == nil {
			return text
		}
	}
	return string(value)
}

// Strings returns the items of a JSON array of strings. ok is false for anything else.
func Strings(value []byte) (items []string, ok bool) {
	s := scanner{data: value}
	err := s.array(func(int) error {
		item, err := s.str()
		items = append(items, item)
		return err
	})
	return items, err == nil
}
