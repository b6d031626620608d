package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxNodes is the maximum number of values at each step of a path.
const maxNodes = 10_000

// jsonPath is a path as in RFC 9535, without slices and functions: $.a, ['a'], [0], [-1],
// [*], [0, 'a'], ..a and filters such as [?@.state == 'failed' && !@.muted].
type jsonPath []segment

// segment is one step of a path: the values that its selectors find in a value, or below it.
type segment struct {
	descend   bool
	selectors []selector
}

// selector yields the values that it finds in v; root is the whole document.
type selector func(root, v value, yield func(value))

var errNodes = fmt.Errorf("the path finds more than %d values", maxNodes)

// find returns the values at the path.
func (p jsonPath) find(root, from value) ([]value, error) {
	nodes := []value{from}
	for _, s := range p {
		var next []value
		visits := 0
		apply := func(v value) {
			visits++
			for _, sel := range s.selectors {
				sel(root, v, func(found value) {
					if len(next) <= maxNodes {
						next = append(next, found)
					}
				})
			}
		}
		for _, v := range nodes {
			if s.descend {
				walk(v, apply)
			} else {
				apply(v)
			}
			if len(next) > maxNodes || visits > 100*maxNodes {
				return nil, errNodes
			}
		}
		nodes = next
	}
	return nodes, nil
}

// walk visits v and everything in it.
func walk(v value, visit func(value)) {
	visit(v)
	v.children(func(child value) bool {
		walk(child, visit)
		return true
	})
}

// byName finds a member. If an object has a name twice, the last one counts.
func byName(name string) selector {
	return func(_, v value, yield func(value)) {
		var found value
		v.members(func(n string, member value) bool {
			if n == name {
				found = member
			}
			return true
		})
		if found != nil {
			yield(found)
		}
	}
}

// byIndex finds an item, from the end if n is below 0.
func byIndex(n int) selector {
	return func(_, v value, yield func(value)) {
		at := n
		if n < 0 {
			v.items(func(value) bool { at++; return true })
			if at < 0 {
				return
			}
		}
		v.items(func(item value) bool {
			if at == 0 {
				yield(item)
			}
			at--
			return at >= 0
		})
	}
}

func all(_, v value, yield func(value)) {
	v.children(func(child value) bool { yield(child); return true })
}

// byFilter finds the children that match a condition.
func byFilter(holds condition) selector {
	return func(root, v value, yield func(value)) {
		v.children(func(child value) bool {
			if holds(root, child) {
				yield(child)
			}
			return true
		})
	}
}

// parser reads a path.
type parser struct {
	text  string
	at    int
	depth int
}

// parsePath reads a path that begins with $.
func parsePath(text string) (jsonPath, error) {
	p := &parser{text: text}
	if !p.take("$") {
		return nil, errors.New("a path begins with $")
	}
	path, err := p.segments()
	if err == nil && p.at < len(p.text) {
		err = p.fail("expected . or [")
	}
	if err != nil {
		return nil, err
	}
	return path, nil
}

func (p *parser) fail(want string) error {
	if p.at >= len(p.text) {
		return fmt.Errorf("%s at the end", want)
	}
	return fmt.Errorf("%s at %.20q", want, p.text[p.at:])
}

func (p *parser) space() {
	for p.at < len(p.text) && strings.IndexByte(space, p.text[p.at]) >= 0 {
		p.at++
	}
}

// take skips token if it comes next.
func (p *parser) take(token string) bool {
	if !strings.HasPrefix(p.text[p.at:], token) {
		return false
	}
	p.at += len(token)
	return true
}

// next skips token, and space before it.
func (p *parser) next(token string) bool {
	p.space()
	return p.take(token)
}

// segments reads the segments after $ or @.
func (p *parser) segments() (jsonPath, error) {
	path := jsonPath{}
	for {
		var s segment
		var err error
		switch {
		case p.take(".."):
			s.descend = true
			if p.take("[") {
				s.selectors, err = p.brackets()
			} else {
				s.selectors, err = p.shorthand()
			}
		case p.take("."):
			s.selectors, err = p.shorthand()
		case p.take("["):
			s.selectors, err = p.brackets()
		default:
			return path, nil
		}
		if err != nil {
			return nil, err
		}
		path = append(path, s)
	}
}

// shorthand reads a name, or *, after a dot.
func (p *parser) shorthand() ([]selector, error) {
	if p.take("*") {
		return []selector{all}, nil
	}
	start := p.at
	for p.at < len(p.text) && isName(p.text[p.at], p.at > start) {
		p.at++
	}
	if p.at == start {
		return nil, p.fail("expected a name")
	}
	if p.at < len(p.text) && p.text[p.at] == '-' {
		return nil, p.fail("expected a name with - in quotes, as in ['a-b'],")
	}
	return []selector{byName(p.text[start:p.at])}, nil
}

func isName(c byte, later bool) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80 || later && c >= '0' && c <= '9'
}

// brackets reads selectors up to ].
func (p *parser) brackets() (selectors []selector, err error) {
	for {
		s, err := p.selector()
		if err != nil {
			return nil, err
		}
		selectors = append(selectors, s)
		if p.next("]") {
			return selectors, nil
		}
		if !p.next(",") {
			return nil, p.fail("expected , or ]")
		}
	}
}

func (p *parser) selector() (selector, error) {
	switch {
	case p.next("*"):
		return all, nil
	case p.take("?"):
		holds, err := p.or()
		return byFilter(holds), err
	case p.at < len(p.text) && (p.text[p.at] == '\'' || p.text[p.at] == '"'):
		name, err := p.quoted()
		return byName(name), err
	}
	start := p.at
	for p.at < len(p.text) && (p.text[p.at] == '-' || p.text[p.at] >= '0' && p.text[p.at] <= '9') {
		p.at++
	}
	n, err := strconv.Atoi(p.text[start:p.at])
	if err != nil {
		p.at = start
		return nil, p.fail("expected a name in quotes, a number, * or ?")
	}
	return byIndex(n), nil
}

// quoted reads a quoted string of either kind.
func (p *parser) quoted() (string, error) {
	quote := p.text[p.at]
	var b strings.Builder
	for i := p.at + 1; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == quote:
			p.at = i + 1
			return b.String(), nil
		case c == '\\' && i+1 < len(p.text):
			i++
			if strings.IndexByte(`\/'"`, p.text[i]) < 0 {
				return "", p.fail(`the only escapes are \\, \/, \' and \"`)
			}
			b.WriteByte(p.text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", p.fail("expected the other quote of a name")
}
