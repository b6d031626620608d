package wasm_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// assemble assembles a module in WebAssembly's text format, so that the tests need no other
// toolchain. It supports a subset: instructions are flat, and labels are numbers.
func assemble(t testing.TB, source string) []byte {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("assemble: %v", r)
		}
	}()
	root := parse(tokens(source))[0].(list)
	var a assembler
	for _, field := range root[1:] {
		a.field(field.(list))
	}
	return a.module()
}

// guestFile assembles a file of testdata.
func guestFile(t testing.TB, name string) []byte {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("testdata", name+".wat"))
	if err != nil {
		t.Fatal(err)
	}
	return assemble(t, string(source))
}

type list []any // elements are strings and lists

func tokens(source string) (out []string) {
	for i := 0; i < len(source); {
		switch c := source[i]; {
		case c == ' ' || c == '\n' || c == '\t':
			i++
		case strings.HasPrefix(source[i:], ";;"):
			i += strings.IndexByte(source[i:]+"\n", '\n')
		case c == '(' || c == ')':
			out = append(out, string(c))
			i++
		case c == '"':
			end := i + 1 + strings.IndexByte(source[i+1:], '"')
			out = append(out, source[i:end+1])
			i = end + 1
		default:
			end := i + strings.IndexAny(source[i:]+" ", " \n\t()")
			out = append(out, source[i:end])
			i = end
		}
	}
	return out
}

func parse(tokens []string) list {
	stack := []list{nil}
	for _, token := range tokens {
		top := len(stack) - 1
		switch token {
		case "(":
			stack = append(stack, list{})
		case ")":
			done := stack[top]
			stack = stack[:top]
			stack[top-1] = append(stack[top-1], done)
		default:
			stack[top] = append(stack[top], token)
		}
	}
	return stack[0]
}

// assembler collects the parts of one module. names maps names to indices of functions.
type assembler struct {
	types, imports, funcs, globals, exports, codes, datas [][]byte
	memory, table, start                                  []byte
	names                                                 map[string]int
	imported                                              int
}

func text(token any) string { return strings.Trim(token.(string), `"`) }

// unescape reads the escapes of a text: \00 in hexadecimal.
func unescape(s string) (out []byte) {
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			b, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
			if err != nil {
				panic(err)
			}
			out, i = append(out, byte(b)), i+2
			continue
		}
		out = append(out, s[i])
	}
	return out
}

func number(token any) uint64 {
	n, err := strconv.ParseInt(token.(string), 0, 64)
	if err != nil {
		panic(err)
	}
	return uint64(n)
}

func uleb(n uint64) []byte { return binary.AppendUvarint(nil, n) }

func sleb(n int64) (out []byte) {
	for {
		b := byte(n & 0x7f)
		n >>= 7
		if n == 0 && b&0x40 == 0 || n == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

func sized(b []byte) []byte { return append(uleb(uint64(len(b))), b...) }

func vector(items [][]byte) []byte {
	out := uleb(uint64(len(items)))
	for _, item := range items {
		out = append(out, item...)
	}
	return out
}

var valueTypes = map[string]byte{"i32": 0x7f, "i64": 0x7e, "f32": 0x7d, "f64": 0x7c}

func (a *assembler) field(f list) {
	switch f[0] {
	case "import":
		decl := f[3].(list)
		a.define(decl)
		kind := a.signature(decl)
		a.imports = append(a.imports, append(append(sized([]byte(text(f[1]))), sized([]byte(text(f[2])))...), append([]byte{0}, kind...)...))
		a.imported++
	case "memory":
		a.memory = limits(a.exported(f, 2))
	case "table":
		rest := a.exported(f, 1)
		a.table = append([]byte{0x70}, limits(rest[:len(rest)-1])...)
	case "data":
		offset := number(f[1].(list)[1])
		a.datas = append(a.datas, append(append([]byte{0, 0x41}, sleb(int64(offset))...), append([]byte{0x0b}, sized(unescape(text(f[2])))...)...))
	case "func":
		a.function(f)
	case "global": // (global (mut i32) (i32.const 0))
		kind, value := f[1].(list), f[2].(list)
		a.globals = append(a.globals, append(append([]byte{valueTypes[kind[1].(string)], 1, 0x41}, sleb(int64(number(value[1])))...), 0x0b))
	case "start":
		a.start = uleb(a.index(f[1]))
	default:
		panic(fmt.Sprint("unknown field ", f[0]))
	}
}

func limits(rest list) []byte {
	if len(rest) == 2 {
		return append(append([]byte{1}, uleb(number(rest[0]))...), uleb(number(rest[1]))...)
	}
	return append([]byte{0}, uleb(number(rest[0]))...)
}

// exported removes the inline export of a field and returns the rest.
func (a *assembler) exported(f list, kind byte) list {
	rest := f[1:]
	if e, ok := rest[0].(list); ok && e[0] == "export" {
		a.exports = append(a.exports, append(sized([]byte(text(e[1]))), kind, 0))
		rest = rest[1:]
	}
	return rest
}

// define sets the name of the next function.
func (a *assembler) define(f list) {
	if a.names == nil {
		a.names = make(map[string]int)
	}
	if name, ok := f[1].(string); ok && name[0] == '$' {
		a.names[name] = a.imported + len(a.funcs)
	}
}

func (a *assembler) index(token any) uint64 {
	if i, ok := a.names[token.(string)]; ok {
		return uint64(i)
	}
	return number(token)
}

// signature adds the type of a function and returns its index.
func (a *assembler) signature(f list) []byte {
	var params, results []byte
	for _, part := range f[1:] {
		p, ok := part.(list)
		if !ok {
			continue
		}
		for _, name := range p[1:] {
			switch p[0] {
			case "param":
				params = append(params, valueTypes[name.(string)])
			case "result":
				results = append(results, valueTypes[name.(string)])
			}
		}
	}
	a.types = append(a.types, append(append([]byte{0x60}, sized(params)...), sized(results)...))
	return uleb(uint64(len(a.types) - 1))
}

func (a *assembler) function(f list) {
	a.define(f)
	var locals [][]byte
	var body []byte
	index := a.imported + len(a.funcs)
	for i := 1; i < len(f); i++ {
		switch part := f[i].(type) {
		case list:
			switch part[0] {
			case "export":
				a.exports = append(a.exports, append(append(sized([]byte(text(part[1]))), 0), uleb(uint64(index))...))
			case "local":
				for _, name := range part[1:] {
					locals = append(locals, []byte{1, valueTypes[name.(string)]})
				}
			}
		case string:
			if part[0] != '$' {
				body = append(body, a.instruction(part, func() any { i++; return f[i] })...)
			}
		}
	}
	a.funcs = append(a.funcs, a.signature(f))
	a.codes = append(a.codes, sized(append(append(vector(locals), body...), 0x0b)))
}

var opcodes = map[string][]byte{
	"unreachable": {0x00}, "else": {0x05}, "end": {0x0b}, "return": {0x0f}, "drop": {0x1a},
	"loop": {0x03, 0x40}, "block": {0x02, 0x40}, "if": {0x04, 0x40},
	"i32.eqz": {0x45}, "i32.eq": {0x46}, "i32.ne": {0x47}, "i32.lt_s": {0x48}, "i32.gt_s": {0x4a}, "i32.gt_u": {0x4b}, "i32.add": {0x6a}, "i32.sub": {0x6b}, "i32.mul": {0x6c},
	"i32.load": {0x28, 2, 0}, "i32.store": {0x36, 2, 0}, "i32.store8": {0x3a, 0, 0}, "i64.store": {0x37, 3, 0},
	"memory.grow": {0x40, 0}, "memory.size": {0x3f, 0}, "memory.fill": {0xfc, 11, 0},
	"table.grow": {0xfc, 15, 0}, "table.size": {0xfc, 16, 0}, "ref.null": {0xd0, 0x70},
}

var indexed = map[string]byte{
	"br": 0x0c, "br_if": 0x0d, "call": 0x10, "local.get": 0x20, "local.set": 0x21, "local.tee": 0x22,
	"global.get": 0x23, "global.set": 0x24,
}

func (a *assembler) instruction(name string, next func() any) []byte {
	switch name {
	case "i32.const":
		return append([]byte{0x41}, sleb(int64(number(next())))...)
	case "i64.const":
		return append([]byte{0x42}, sleb(int64(number(next())))...)
	case "f64.const":
		f, err := strconv.ParseFloat(next().(string), 64)
		if err != nil {
			panic(err)
		}
		return binary.LittleEndian.AppendUint64([]byte{0x44}, math.Float64bits(f))
	}
	if op, ok := indexed[name]; ok {
		return append([]byte{op}, uleb(a.index(next()))...)
	}
	if op, ok := opcodes[name]; ok {
		return op
	}
	panic("unknown instruction " + name)
}

func (a *assembler) module() []byte {
	var tables [][]byte
	if a.table != nil {
		tables = append(tables, a.table)
	}
	return a.moduleWith(tables, nil, false)
}

// moduleWith returns the module. counted adds a data count section.
func (a *assembler) moduleWith(tables, elements [][]byte, counted bool) []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	section := func(id byte, body []byte) {
		if len(body) > 0 {
			out = append(append(out, id), sized(body)...)
		}
	}
	vectors := func(id byte, items [][]byte) {
		if len(items) > 0 {
			section(id, vector(items))
		}
	}
	vectors(1, a.types)
	vectors(2, a.imports)
	vectors(3, a.funcs)
	vectors(4, tables)
	if a.memory != nil {
		vectors(5, [][]byte{a.memory})
	}
	vectors(6, a.globals)
	vectors(7, a.exports)
	section(8, a.start)
	vectors(9, elements)
	if counted {
		section(12, uleb(uint64(len(a.datas))))
	}
	vectors(10, a.codes)
	vectors(11, a.datas)
	return out
}
