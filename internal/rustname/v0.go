package rustname

import (
	"strconv"
	"strings"
)

// maxSteps limits the productions of a symbol that are read, since references back can repeat parts exponentially.
const maxSteps = 2000

// v0 reads a symbol of the v0 mangling after its prefix. See https://rust-lang.github.io/rfcs/2603-rust-symbol-name-mangling-v0.html.
func v0(text string) (string, bool) {
	p := parser{text: text, left: maxSteps}
	p.path(true)
	// The crate that instantiates a generic function, and suffixes of vendors such as ".llvm.123", follow.
	return p.out.String(), !p.bad && p.out.Len() > 0
}

// parser reads one symbol. After an error it writes no more.
type parser struct {
	text  string
	at    int
	out   strings.Builder
	quiet int // while it is above 0, nothing is written
	left  int // remaining steps
	bad   bool
}

func (p *parser) next() byte {
	if p.bad || p.at >= len(p.text) {
		p.bad = true
		return 0
	}
	p.at++
	return p.text[p.at-1]
}

// take skips b and reports whether it was next.
func (p *parser) take(b byte) bool {
	if p.bad || p.at >= len(p.text) || p.text[p.at] != b {
		return false
	}
	p.at++
	return true
}

func (p *parser) write(text string) {
	if p.quiet == 0 && !p.bad && p.out.Len() <= maxName {
		p.out.WriteString(text)
	}
}

// enter counts a step and reports whether there was one left.
func (p *parser) enter() bool {
	if p.left--; p.left < 0 {
		p.bad = true
	}
	return !p.bad
}

// base62 reads a number that ends with an underscore.
func (p *parser) base62() int {
	n := 0
	for begin := p.at; ; {
		c := p.next()
		switch {
		case c == '_' && p.at == begin+1:
			return 0
		case c == '_':
			return n + 1
		case '0' <= c && c <= '9':
			n = 62*n + int(c-'0')
		case 'a' <= c && c <= 'z':
			n = 62*n + int(c-'a') + 10
		case 'A' <= c && c <= 'Z':
			n = 62*n + int(c-'A') + 36
		default:
			p.bad = true
		}
		if p.bad {
			return 0
		}
		n = min(n, 1<<24) // a disambiguator may be any number; int may have 32 bits
	}
}

// identifier reads a name, perhaps with a disambiguator, which it returns.
func (p *parser) identifier() (name string, number int) {
	if p.take('s') {
		number = p.base62() + 1
	}
	encoded := p.take('u') // Punycode, which is not decoded
	n, rest, ok := decimal(p.text[min(p.at, len(p.text)):])
	if strings.HasPrefix(p.text[min(p.at, len(p.text)):], "0") { // a number has no leading zeros
		n, rest = 0, p.text[p.at+1:]
	}
	if p.bad || !ok {
		p.bad = true
		return "", 0
	}
	rest = strings.TrimPrefix(rest, "_")
	if n > len(rest) {
		p.bad = true
		return "", 0
	}
	p.at = len(p.text) - len(rest) + n
	if name = rest[:n]; encoded {
		name = "punycode{" + name + "}"
	}
	return name, number
}

// back reads a reference, and calls read at its place.
func (p *parser) back(read func()) {
	here := p.at - 1
	to := p.base62()
	if p.bad || to >= here {
		p.bad = true
		return
	}
	if p.quiet > 0 {
		return
	}
	after := p.at
	p.at = to
	read()
	p.at = after
}

// path reads a path. In the path of a value, arguments of generics begin with "::".
func (p *parser) path(value bool) {
	if !p.enter() {
		return
	}
	switch tag := p.next(); tag {
	case 'C':
		name, _ := p.identifier()
		p.write(name)
	case 'M', 'X':
		p.silently(func() {
			if p.take('s') {
				p.base62()
			}
			p.path(false)
		})
		p.qualified(tag == 'X')
	case 'Y':
		p.qualified(true)
	case 'N':
		p.nested(value)
	case 'I':
		p.path(value)
		if value {
			p.write("::")
		}
		p.list("<", ">", p.argument)
	case 'B':
		p.back(func() { p.path(value) })
	default:
		p.bad = true
	}
}

// silently reads without writing.
func (p *parser) silently(read func()) {
	p.quiet++
	read()
	p.quiet--
}

// qualified reads a type, and a trait if there is one: "<Type>" or "<Type as Trait>".
func (p *parser) qualified(trait bool) {
	p.write("<")
	p.typ()
	if trait {
		p.write(" as ")
		p.path(false)
	}
	p.write(">")
}

// nested reads a namespace, the path around and a name. Names of closures and shims are in braces.
func (p *parser) nested(value bool) {
	space := p.next()
	p.path(value)
	name, number := p.identifier()
	switch {
	case 'a' <= space && space <= 'z':
		if name != "" {
			p.write("::" + name)
		}
	case space == 'C' || space == 'S':
		kind := "closure"
		if space == 'S' {
			kind = "shim"
		}
		p.write("::{" + kind)
		if name != "" {
			p.write(":" + name)
		}
		p.write("#" + strconv.Itoa(number) + "}")
	default:
		p.bad = true
	}
}

// list reads items up to an "E", with commas between them.
func (p *parser) list(before, after string, read func()) (n int) {
	p.write(before)
	for !p.take('E') {
		if !p.enter() {
			return n
		}
		if n > 0 {
			p.write(", ")
		}
		read()
		n++
	}
	p.write(after)
	return n
}

// argument reads an argument of a generic: a lifetime, a constant or a type.
func (p *parser) argument() {
	switch {
	case p.take('L'):
		p.base62()
		p.write("'_")
	case p.take('K'):
		p.constant()
	default:
		p.typ()
	}
}

// basic has the names of the types of one letter.
var basic = map[byte]string{
	'a': "i8", 'b': "bool", 'c': "char", 'd': "f64", 'e': "str", 'f': "f32", 'h': "u8", 'i': "isize", 'j': "usize", 'l': "i32", 'm': "u32",
	'n': "i128", 'o': "u128", 's': "i16", 't': "u16", 'u': "()", 'v': "...", 'x': "i64", 'y': "u64", 'z': "!", 'p': "_",
}

// typ reads a type.
func (p *parser) typ() {
	if !p.enter() {
		return
	}
	tag := p.next()
	if name, ok := basic[tag]; ok {
		p.write(name)
		return
	}
	switch tag {
	case 'A':
		p.write("[")
		p.typ()
		p.write("; ")
		p.constant()
		p.write("]")
	case 'S':
		p.write("[")
		p.typ()
		p.write("]")
	case 'T':
		if p.list("(", "", p.typ) == 1 {
			p.write(",")
		}
		p.write(")")
	case 'R', 'Q', 'P', 'O':
		if (tag == 'R' || tag == 'Q') && p.take('L') {
			p.base62()
		}
		p.write(map[byte]string{'R': "&", 'Q': "&mut ", 'P': "*const ", 'O': "*mut "}[tag])
		p.typ()
	case 'F':
		p.function()
	case 'D':
		p.dynamic()
	case 'B':
		p.back(p.typ)
	default:
		p.at--
		p.path(false)
	}
}

// function reads the type of a function.
func (p *parser) function() {
	p.binder()
	if p.take('U') {
		p.write("unsafe ")
	}
	if p.take('K') {
		abi := "C"
		if !p.take('C') {
			name, _ := p.identifier()
			abi = strings.ReplaceAll(name, "_", "-")
		}
		p.write(`extern "` + abi + `" `)
	}
	p.list("fn(", ")", p.typ)
	if p.take('u') {
		return
	}
	p.write(" -> ")
	p.typ()
}

// binder skips the number of the lifetimes that a type binds.
func (p *parser) binder() {
	if p.take('G') {
		p.base62()
	}
}

// dynamic reads a trait object.
func (p *parser) dynamic() {
	p.write("dyn ")
	p.binder()
	for n := 0; !p.take('E'); n++ {
		if !p.enter() {
			return
		}
		if n > 0 {
			p.write(" + ")
		}
		p.path(false)
		for p.take('p') {
			name, _ := p.identifier()
			p.write("<" + name + " = ")
			p.typ()
			p.write(">")
		}
	}
	if !p.take('L') {
		p.bad = true
		return
	}
	p.base62()
}

// constant reads the value of a constant, and writes it as a number.
func (p *parser) constant() {
	switch {
	case p.take('B'):
		p.back(p.constant)
		return
	case p.take('p'):
		p.write("_")
		return
	}
	p.silently(p.typ)
	if p.take('n') {
		p.write("-")
	}
	begin := p.at
	for !p.take('_') {
		if c := p.next(); p.bad || !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			p.bad = true
			return
		}
	}
	number := p.text[begin : p.at-1]
	if n, err := strconv.ParseUint(number, 16, 64); err == nil {
		number = strconv.FormatUint(n, 10)
	}
	p.write(number)
}
