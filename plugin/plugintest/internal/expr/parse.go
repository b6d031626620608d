package expr

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/daeace23/prober/internal/yamlpos"
)

// Limits of an expression.
const (
	maxExpressions = 256     // of a template
	maxExpression  = 4 << 10 // characters of an expression
	maxDepth       = 32      // of nested calls
	maxFolded      = 4 << 10 // bytes of the result of a call that is computed at load
)

// kind is the kind of a node.
type kind int

const (
	literalNode kind = iota
	nameNode         // a captured or computed value
	beforeNode
	restNode
	nowNode
	callNode
	sumNode
	differenceNode
)

// node is an expression whose types have been checked.
type node struct {
	kind   kind
	typ    Type
	offset int // in the source
	value  Value
	name   string
	call   *function
	args   []*node
}

// parser reads one value of a file.
type parser struct {
	source string
	scope  *Scope
	alone  bool // the expression is not part of a template

	at    int // offset of the next character
	limit int // offset at which the expression is too long
	depth int
}

func (p *parser) errorf(offset int, format string, args ...any) error {
	return placed(p.source, offset, fmt.Errorf(format, args...))
}

// parseTemplate parses a template whose literal parts decode converts to bytes.
func parseTemplate(source string, s *Scope, decode func(string) ([]byte, error)) (*Template, error) {
	t := &Template{source: source}
	p := &parser{source: source, scope: s}
	expressions := 0
	for p.at < len(source) {
		start := p.at
		literal, more := p.literal()
		data, err := decode(literal)
		if wrong, ok := errors.AsType[*failure](err); ok {
			return nil, placed(source, start+wrong.offset, wrong.err)
		}
		if len(data) > 0 {
			t.parts = append(t.parts, part{literal: data})
		}
		if !more {
			continue
		}
		if expressions++; expressions > maxExpressions {
			return nil, p.errorf(p.at, "more than %d expressions", maxExpressions)
		}
		n, err := p.embedded()
		if err != nil {
			return nil, err
		}
		t.parts = append(t.parts, part{expr: n})
	}
	return t, t.checkOrder()
}

// literal returns the text up to the next ${, and whether there is one. It moves behind the ${.
func (p *parser) literal() (text string, more bool) {
	var b strings.Builder
	for p.at < len(p.source) {
		rest := p.source[p.at:]
		switch {
		case strings.HasPrefix(rest, "$${"):
			b.WriteString("${")
			p.at += len("$${")
		case strings.HasPrefix(rest, "${"):
			p.at += len("${")
			return b.String(), true
		default:
			b.WriteByte(rest[0])
			p.at++
		}
	}
	return b.String(), false
}

// embedded reads an expression and the } behind it.
func (p *parser) embedded() (*node, error) {
	n, err := p.limited()
	if err != nil {
		return nil, err
	}
	if n.typ == Int {
		return nil, p.errorf(n.offset, "an integer has no size: use u8, u16, u32, u64, ber, varint or dec")
	}
	if !p.take('}') {
		return nil, p.unexpected("}")
	}
	return n, nil
}

// whole reads an expression up to the end of the source.
func (p *parser) whole() (*node, error) {
	n, err := p.limited()
	if err != nil {
		return nil, err
	}
	if p.skip(); p.at < len(p.source) {
		return nil, p.unexpected("the end")
	}
	return n, nil
}

func (p *parser) limited() (*node, error) {
	p.limit = p.at + maxExpression
	return p.sum()
}

func (p *parser) skip() {
	for p.at < len(p.source) && strings.IndexByte(" \t\r\n", p.source[p.at]) >= 0 {
		p.at++
	}
}

// take moves behind the character c, if it is next.
func (p *parser) take(c byte) bool {
	if p.skip(); p.at < len(p.source) && p.source[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *parser) unexpected(want string) error {
	if p.skip(); p.at >= len(p.source) {
		return p.errorf(p.at, "the expression ends, want %s", want)
	}
	found := []rune(p.source[p.at:])[0]
	return p.errorf(p.at, "unexpected %q, want %s", found, want)
}

// sum reads integers with + and -, or a single value.
func (p *parser) sum() (*node, error) {
	left, err := p.operand()
	for err == nil {
		next := kind(0)
		switch {
		case p.take('+'):
			next = sumNode
		case p.take('-'):
			next = differenceNode
		default:
			return left, nil
		}
		var right *node
		if right, err = p.operand(); err != nil {
			break
		}
		for _, n := range []*node{left, right} {
			if n.typ != Int {
				return nil, p.errorf(n.offset, "+ and - are for integers, this is bytes: use concat, int or number")
			}
		}
		left = &node{kind: next, typ: Int, offset: left.offset, args: []*node{left, right}}
	}
	return nil, err
}

// operand reads a literal, a name, a call or a sum in parentheses.
func (p *parser) operand() (*node, error) {
	p.skip()
	start := p.at
	if start >= p.limit {
		return nil, p.errorf(start, "the expression is longer than %d characters", maxExpression)
	}
	if p.depth++; p.depth > maxDepth {
		return nil, p.errorf(start, "more than %d levels", maxDepth)
	}
	defer func() { p.depth-- }()
	switch c := p.peek(); {
	case c == '(':
		p.at++
		n, err := p.sum()
		if err == nil && !p.take(')') {
			err = p.unexpected(")")
		}
		return n, err
	case c == '"' || c == '\'':
		return p.quoted(c)
	case c >= '0' && c <= '9':
		return p.number()
	case isLetter(c):
		return p.named()
	}
	return nil, p.unexpected("a name, a number or a quoted text")
}

func (p *parser) peek() byte {
	if p.at < len(p.source) {
		return p.source[p.at]
	}
	return 0
}

func isLetter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }

// word returns the letters, digits and _ that are next.
func (p *parser) word() string {
	start := p.at
	for isLetter(p.peek()) || p.peek() >= '0' && p.peek() <= '9' {
		p.at++
	}
	return p.source[start:p.at]
}

func (p *parser) number() (*node, error) {
	start := p.at
	text := p.word()
	v, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		return nil, p.errorf(start, "%.40q must be an integer, such as 12 or 0x0c", text)
	}
	return literalOf(start, Value{Type: Int, Int: v}), nil
}

func literalOf(offset int, v Value) *node {
	return &node{kind: literalNode, typ: v.Type, offset: offset, value: v}
}

// escapes are the characters behind a backslash.
var escapes = map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', '0': 0, '\\': '\\', '"': '"', '\'': '\''}

// quoted reads a text in quotes.
func (p *parser) quoted(quote byte) (*node, error) {
	start := p.at
	data := []byte{}
	for p.at++; p.at < len(p.source); p.at++ {
		c := p.source[p.at]
		if c == quote {
			p.at++
			return literalOf(start, Value{Bytes: data}), nil
		}
		if c == '\\' {
			var err error
			if c, err = p.escape(); err != nil {
				return nil, err
			}
		}
		data = append(data, c)
	}
	return nil, p.errorf(start, "the quoted text has no end")
}

// escape reads the escape at the backslash, up to its last character.
func (p *parser) escape() (byte, error) {
	start := p.at
	p.at++
	next := p.peek()
	if next == 'x' && p.at+2 < len(p.source) {
		if v, err := strconv.ParseUint(p.source[p.at+1:p.at+3], 16, 8); err == nil {
			p.at += 2
			return byte(v), nil
		}
	}
	if c, ok := escapes[next]; ok {
		return c, nil
	}
	return 0, p.errorf(start, `unknown escape; known: \n, \r, \t, \0, \xHH, \\, \", \'`)
}

// named reads a name or a call.
func (p *parser) named() (*node, error) {
	start := p.at
	name := p.word()
	if p.take('(') {
		return p.callOf(start, name)
	}
	n := &node{kind: nameNode, offset: start, name: name}
	switch name {
	case before, rest:
		if p.alone {
			return nil, p.errorf(start, "%s is part of a message: only send and recv have it", name)
		}
		if n.kind = beforeNode; name == rest {
			n.kind = restNode
		}
		return n, nil
	case now:
		n.kind, n.typ = nowNode, Int
		return n, nil
	}
	var err error
	if n.typ, err = p.scope.use(name); err != nil {
		return nil, placed(p.source, start, err)
	}
	return n, nil
}

// callOf reads the arguments of a call. A call with constant arguments is a constant, unless its result is large.
func (p *parser) callOf(start int, name string) (*node, error) {
	f := functions()[name]
	if f == nil {
		return nil, p.errorf(start, "unknown function %.80q%s", name, yamlpos.Known(name, slices.Collect(maps.Keys(functions()))))
	}
	n := &node{kind: callNode, typ: f.result, offset: start, name: name, call: f}
	for !p.take(')') {
		if len(n.args) > 0 && !p.take(',') {
			return nil, p.unexpected(", or )")
		}
		arg, err := p.sum()
		if err != nil {
			return nil, err
		}
		n.args = append(n.args, arg)
	}
	if err := p.checkArgs(n); err != nil {
		return nil, err
	}
	if f.slow || slices.ContainsFunc(n.args, func(a *node) bool { return a.kind != literalNode }) {
		return n, nil
	}
	v, err := newEvaluation(nil, &Env{}).node(n, 0)
	if inner, ok := errors.AsType[*failure](err); ok {
		return nil, placed(p.source, inner.offset, inner.err)
	}
	if err != nil || len(v.Bytes) > maxFolded {
		return n, err
	}
	return literalOf(start, v), nil
}

// checkArgs compares the arguments of a call with the parameters of its function.
func (p *parser) checkArgs(n *node) error {
	f := n.call
	if len(n.args) < f.least() || len(n.args) > len(f.params) && !f.variadic {
		return p.errorf(n.offset, "%s has %d arguments, want %s", n.name, len(n.args), f)
	}
	for i, arg := range n.args {
		if want := f.params[min(i, len(f.params)-1)]; arg.typ != want {
			return p.errorf(arg.offset, "the argument is %s, want %s: %s", arg.typ, want, f)
		}
	}
	return nil
}
