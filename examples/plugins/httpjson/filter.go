package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// condition reports whether a filter matches a value; root is the whole document.
type condition func(root, v value) bool

// operand returns one side of a comparison, or nil.
type operand func(root, v value) value

const maxDepth = 32 // of parentheses and filters in a path

func (p *parser) or() (condition, error) { return p.chain("||", p.and) }

func (p *parser) and() (condition, error) { return p.chain("&&", p.not) }

// chain reads conditions that are joined by an operator.
func (p *parser) chain(operator string, one func() (condition, error)) (condition, error) {
	if p.depth++; p.depth > 3*maxDepth {
		return nil, p.fail("expected less nesting")
	}
	defer func() { p.depth-- }()
	var parts []condition
	for {
		c, err := one()
		if err != nil {
			return nil, err
		}
		parts = append(parts, c)
		if !p.next(operator) {
			break
		}
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	any := operator == "||"
	return func(root, v value) bool {
		for _, c := range parts {
			if c(root, v) == any {
				return any
			}
		}
		return !any
	}, nil
}

func (p *parser) not() (condition, error) {
	negated := false
	for p.next("!") {
		negated = !negated
	}
	c, err := p.basic()
	if err != nil || !negated {
		return c, err
	}
	return func(root, v value) bool { return !c(root, v) }, nil
}

// basic reads parentheses, a comparison, or a path that must find a value.
func (p *parser) basic() (condition, error) {
	if p.next("(") {
		c, err := p.or()
		if err == nil && !p.next(")") {
			err = p.fail("expected )")
		}
		return c, err
	}
	left, path, err := p.operand()
	if err != nil {
		return nil, err
	}
	for _, operator := range []string{"==", "!=", "<=", ">=", "<", ">"} {
		if p.next(operator) {
			right, _, err := p.operand()
			return func(root, v value) bool { return compare(operator, left(root, v), right(root, v)) }, err
		}
	}
	if !path {
		return nil, p.fail("expected a comparison")
	}
	return func(root, v value) bool { return left(root, v) != nil }, nil
}

// operand reads a path or a literal.
func (p *parser) operand() (o operand, path bool, err error) {
	p.space()
	switch {
	case p.take("@"):
		segments, err := p.segments()
		return func(root, v value) value { return segments.first(root, v) }, true, err
	case p.take("$"):
		segments, err := p.segments()
		return func(root, _ value) value { return segments.first(root, root) }, true, err
	case p.at < len(p.text) && (p.text[p.at] == '\'' || p.text[p.at] == '"'):
		text, err := p.quoted()
		literal := quote(text)
		return func(value, value) value { return literal }, false, err
	}
	start := p.at
	for p.at < len(p.text) && (isName(p.text[p.at], true) || strings.IndexByte("+-.", p.text[p.at]) >= 0) {
		p.at++
	}
	literal := value(p.text[start:p.at])
	if word := string(literal); word != "true" && word != "false" && word != "null" {
		if _, err := strconv.ParseFloat(word, 64); err != nil || literal.kind() != '0' {
			p.at = start
			return nil, false, p.fail("expected @, $, a quoted string, a number, true, false or null")
		}
	}
	return func(value, value) value { return literal }, false, nil
}

// quote returns a string as JSON.
func quote(text string) value {
	v := value{'"'}
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			v = append(v, '\\', c)
		case c < ' ':
			v = fmt.Appendf(v, `\u%04x`, c)
		default:
			v = append(v, c)
		}
	}
	return append(v, '"')
}

// first returns the first value at the path, or nil.
func (p jsonPath) first(root, from value) value {
	found, err := p.find(root, from)
	if err != nil || len(found) == 0 {
		return nil
	}
	return found[0]
}

// compare compares two values as RFC 9535 does: values without an order are neither above nor
// below each other.
func compare(operator string, a, b value) bool {
	switch operator {
	case "==":
		return equal(a, b)
	case "!=":
		return !equal(a, b)
	case "<":
		return less(a, b)
	case "<=":
		return less(a, b) || equal(a, b)
	case ">":
		return less(b, a)
	default:
		return less(b, a) || equal(a, b)
	}
}

func equal(a, b value) bool {
	if a == nil || b == nil || a.kind() != b.kind() {
		return a == nil && b == nil
	}
	switch a.kind() {
	case '"':
		return a.text() == b.text()
	case '0':
		return a.number() == b.number()
	default:
		return bytes.Equal(a, b)
	}
}

func less(a, b value) bool {
	if a == nil || b == nil || a.kind() != b.kind() {
		return false
	}
	switch a.kind() {
	case '"':
		return a.text() < b.text()
	case '0':
		return a.number() < b.number()
	default:
		return false
	}
}

func (v value) number() float64 {
	n, _ := strconv.ParseFloat(string(v), 64) // out of range is infinite
	return n
}
