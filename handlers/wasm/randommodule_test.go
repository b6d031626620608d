package wasm_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
)

// randomModule is a guest that reports a hash of its state, and then changes it.
type randomModule struct {
	rand.Rand
	bulk, references, simd, kv bool
	passive, vectors           bool     // has passive elements, has a global of type v128
	kinds                      []string // changes in it that a reset cannot undo
	volatile                   bool     // has an uncalled function with table.copy
	raw                        []byte   // instructions at the end of the function that changes state
	body                       []byte   // the function being written
}

// volatileKinds are changes that a reset cannot undo. Each has a prefix with the feature that it needs.
var volatileKinds = []string{
	"bulk table.copy", "bulk table.init", "bulk elem.drop", "bulk data.drop",
	"references table.set", "references table.grow", "references table.fill",
	"references global funcref", "references global externref", "simd global v128",
}

// Indices of the functions of a random module: first the imports, then its own.
const (
	hostMessage = iota
	hostLog
	hostGet
	hostSet
	ownProbe
	ownInit
	ownStart
	ownObserve
	ownChange
	ownNumber // first of four
)

// Addresses in memory.
const (
	atKey     = 100
	atInit    = 300
	atGot     = 400
	atMessage = 500
)

// randomCode returns a random module. Its function that changes state ends with raw. If volatile is set,
// it has an uncalled function whose effect a reset could not undo.
func randomCode(seed uint64, raw []byte, volatile bool) []byte {
	m := newRandomModule(seed)
	m.raw, m.volatile = raw, volatile
	return m.bytes()
}

// newRandomModule chooses the features of a module.
func newRandomModule(seed uint64) *randomModule {
	m := &randomModule{Rand: *rand.New(rand.NewPCG(seed, 1))}
	kind := ""
	m.bulk, m.references, m.simd, m.kv = m.IntN(2) == 0, m.IntN(4) == 0, m.IntN(3) == 0, m.IntN(2) == 0
	if m.IntN(3) == 0 {
		kind = volatileKinds[m.IntN(len(volatileKinds))]
	}
	if kind != "" {
		m.kinds = append(m.kinds, kind)
		m.bulk = m.bulk || strings.HasPrefix(kind, "bulk")
		m.references = m.references || strings.HasPrefix(kind, "references")
		m.simd = m.simd || strings.HasPrefix(kind, "simd")
	}
	m.passive = m.bulk && m.IntN(5) == 0 || kind == "bulk table.init" || kind == "bulk elem.drop"
	m.vectors = m.simd && m.IntN(5) == 0 || kind == "simd global v128"
	return m
}

// u encodes n in LEB128, sometimes with more bytes than necessary.
func (m *randomModule) u(n uint64) []byte {
	out := uleb(n)
	for m.IntN(8) == 0 && len(out) < 5 {
		out[len(out)-1] |= 0x80
		out = append(out, 0)
	}
	return out
}

func (m *randomModule) op(parts ...any) {
	for _, part := range parts {
		switch part := part.(type) {
		case int:
			m.body = append(m.body, byte(part))
		case []byte:
			m.body = append(m.body, part...)
		}
	}
}

func (m *randomModule) i32(n int)         { m.op(0x41, sleb(int64(int32(n)))) }
func (m *randomModule) index(op, n int)   { m.op(op, m.u(uint64(n))) }
func (m *randomModule) store(at, val int) { m.i32(at); m.i32(val); m.op(0x36, 2, 0) }
func (m *randomModule) loaded(at int)     { m.i32(at); m.op(0x28, 2, 0) }

// misc adds an instruction with the prefix 0xfc. The interpreter requires an opcode of one byte.
func (m *randomModule) misc(op uint64) {
	if interpreter {
		m.op(0xfc, int(op))
		return
	}
	m.op(0xfc, m.u(op))
}

// mix adds the value that push pushes to the hash in the first local.
func (m *randomModule) mix(push func()) {
	m.index(0x20, 0)
	m.i32(31)
	m.op(0x6c)
	push()
	m.op(0x6a)
	m.index(0x21, 0)
}

// observe returns the function that hashes the state.
func (m *randomModule) observe() []byte {
	m.body = []byte{1, 1, 0x7f}
	m.i32(17)
	m.index(0x21, 0)
	if m.kv {
		m.store(atGot, 0)
		m.mix(func() { m.i32(atKey); m.i32(3); m.i32(atGot); m.i32(8); m.index(0x10, hostGet) })
		m.mix(func() { m.loaded(atGot) })
	}
	m.mix(func() { m.index(0x23, 0) })
	m.mix(func() { m.index(0x23, 1); m.op(0xa7) })
	m.mix(func() { m.index(0x23, 2); m.op(0xbc) })
	m.mix(func() { m.index(0x23, 3); m.op(0xbd, 0xa7) })
	m.mix(func() { m.op(0x3f, 0) })
	for _, at := range []int{0, atKey, 200, 204, 1000, 65532} {
		m.mix(func() { m.loaded(at) })
	}
	for i := range 8 { // calling a null entry traps
		m.mix(func() { m.i32(i); m.op(0x11, m.u(0), m.u(0)) })
	}
	if m.vectors {
		m.mix(func() { m.index(0x23, 4); m.op(0xfd, 27, 0) })
	}
	if m.references {
		for table := range 3 {
			m.mix(func() { m.misc(16); m.op(m.u(uint64(table))) })
			m.mix(func() { m.i32(1); m.index(0x25, table); m.op(0xd1) })
		}
		m.mix(func() { m.index(0x23, m.firstReference()); m.op(0xd1) })
	}
	m.index(0x20, 0)
	return m.done()
}

func (m *randomModule) done() []byte { return sized(append(m.body, 0x0b)) }

// firstReference returns the index of the first global that is a reference.
func (m *randomModule) firstReference() int {
	if m.vectors {
		return 5
	}
	return 4
}

func (m *randomModule) tableInit(to, from, n int) {
	m.i32(to)
	m.i32(from)
	m.i32(n)
	m.misc(12)
	m.op(m.u(1), m.u(0))
}

// change returns a function that changes the state.
func (m *randomModule) change() []byte {
	m.body = []byte{0}
	m.index(0x23, 0) // consecutive calls find different values
	m.i32(1)
	m.op(0x6a)
	m.index(0x24, 0)
	for range 1 + m.IntN(5) {
		m.changeAny()
	}
	m.op(m.raw)
	return m.done()
}

func (m *randomModule) changeAny() {
	if m.simd && m.IntN(2) == 0 { // a reader that expects LEB128 would take the next bytes as part of the opcode
		m.op(0xfd, 12, make([]byte, 16), 0xfd, 0x83, 0x41, 0x44, 0x1a, 0x1a)
	}
	if len(m.kinds) > 0 && m.IntN(2) == 0 {
		m.changeVolatile(m.kinds[m.IntN(len(m.kinds))])
		return
	}
	switch m.IntN(9) {
	case 0:
		m.op(0x42, sleb(m.Int64()))
		m.index(0x24, 1)
	case 1:
		m.op(0x43, binary.LittleEndian.AppendUint32(nil, m.Uint32()))
		m.index(0x24, 2)
	case 2:
		m.op(0x44, binary.LittleEndian.AppendUint64(nil, m.Uint64()))
		m.index(0x24, 3)
	case 3:
		m.store([]int{0, 200, 204, 1000, 65532}[m.IntN(5)], m.IntN(1<<30))
	case 4:
		m.i32(1)
		m.op(0x40, 0, 0x1a)
	case 5:
		if m.kv {
			m.i32(atKey)
			m.i32(3)
			m.i32(atKey + 4*m.IntN(25))
			m.i32(m.IntN(9))
			m.index(0x10, hostSet)
			m.op(0x1a)
		}
	case 6:
		m.i32(m.IntN(4))
		m.i32(atKey)
		m.i32(m.IntN(5))
		m.index(0x10, hostLog)
	case 7:
		m.i32(atKey)
		m.i32(m.IntN(5))
		m.index(0x10, hostMessage)
	case 8:
		if m.bulk {
			m.i32(m.IntN(2000))
			m.i32(m.IntN(256))
			m.i32(m.IntN(64))
			m.misc(11)
			m.op(0)
			m.i32(m.IntN(2000))
			m.i32(m.IntN(2000))
			m.i32(m.IntN(64))
			m.misc(10)
			m.op(0, 0)
		}
	}
}

func (m *randomModule) changeVolatile(kind string) {
	number := func() { m.index(0xd2, ownNumber+m.IntN(4)) }
	table := uint64(m.IntN(2))
	switch _, what, _ := strings.Cut(kind, " "); what {
	case "table.copy":
		m.i32(m.IntN(4))
		m.i32(m.IntN(4))
		m.i32(1 + m.IntN(3))
		m.misc(14)
		m.op(m.u(0), m.u(0))
	case "table.init":
		m.tableInit(m.IntN(4), m.IntN(2), 1+m.IntN(2))
	case "elem.drop":
		m.misc(13)
		m.op(m.u(1))
	case "data.drop":
		m.misc(9)
		m.op(m.u(1))
	case "table.set":
		m.i32(m.IntN(4))
		number()
		m.op(0x26, m.u(table))
	case "table.grow":
		m.op(0xd0, 0x70)
		m.i32(1 + m.IntN(3))
		m.misc(15)
		m.op(m.u(table), 0x1a)
	case "table.fill":
		m.i32(m.IntN(2))
		number()
		m.i32(1 + m.IntN(2))
		m.misc(17)
		m.op(m.u(table))
	case "global funcref":
		number()
		m.index(0x24, m.firstReference())
	case "global externref": // the guest has only null references, so the change is invisible
		m.op(0xd0, 0x6f)
		m.index(0x24, m.firstReference()+1)
	case "global v128":
		m.op(0xfd, 12, binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, m.Uint64()), m.Uint64()))
		m.index(0x24, 4)
	}
}

// probe returns the function probe. It reports the hash as a message of eight letters, changes the state,
// and returns the new hash in its verdict.
func (m *randomModule) probe() []byte {
	m.body = []byte{1, 2, 0x7f}
	m.useSegments()
	m.index(0x10, ownObserve)
	m.index(0x21, 0)
	for i := range 8 {
		m.i32(atMessage + i)
		m.index(0x20, 0)
		m.i32(4 * i)
		m.op(0x76)
		m.i32(15)
		m.op(0x71)
		m.i32('a')
		m.op(0x6a, 0x3a, 0, 0)
	}
	m.index(0x10, ownChange)
	m.i32(atMessage)
	m.i32(8)
	m.index(0x10, hostMessage)
	m.index(0x10, ownObserve)
	m.i32(3)
	m.op(0x71)
	return m.done()
}

// useSegments traps if an earlier attempt dropped segments.
func (m *randomModule) useSegments() {
	if slices.Contains(m.kinds, "bulk data.drop") {
		m.i32(atInit)
		m.i32(0)
		m.i32(4)
		m.misc(8)
		m.op(m.u(1), 0)
	}
	if slices.Contains(m.kinds, "bulk elem.drop") {
		m.tableInit(0, 0, 1)
	}
}

// call returns a function that calls another one or none.
func (m *randomModule) call(function int) []byte {
	m.body = []byte{0}
	if m.IntN(2) == 0 {
		m.index(0x10, function)
	}
	return m.done()
}

// bytes assembles the module.
func (m *randomModule) bytes() []byte {
	a := assembler{names: map[string]int{}}
	a.types = [][]byte{[]byte("\x60\x00\x01\x7f"), []byte("\x60\x00\x00"), []byte("\x60\x02\x7f\x7f\x00"), []byte("\x60\x03\x7f\x7f\x7f\x00"), []byte("\x60\x04\x7f\x7f\x7f\x7f\x01\x7f")}
	for _, f := range []struct {
		module, name string
		kind         byte
	}{{"prober_v1", "message", 2}, {"prober_v1", "log", 3}, {"prober_v1_kv", "get", 4}, {"prober_v1_kv", "set", 4}} {
		a.imports = append(a.imports, append(append(sized([]byte(f.module)), sized([]byte(f.name))...), 0, f.kind))
	}
	a.funcs = [][]byte{{0}, {1}, {1}, {0}, {1}, {0}, {0}, {0}, {0}}
	a.codes = [][]byte{m.probe(), m.call(ownChange), m.call(ownChange), m.observe(), m.change()}
	for i := range 4 {
		a.codes = append(a.codes, sized([]byte{0, 0x41, byte(i + 1), 0x0b}))
	}
	if m.volatile {
		a.funcs = append(a.funcs, []byte{1})
		a.codes = append(a.codes, sized([]byte("\x00\x41\x00\x41\x00\x41\x00\xfc\x0e\x00\x00\x0b")))
	}
	a.globals = [][]byte{[]byte("\x7f\x01\x41\x00\x0b"), []byte("\x7e\x01\x42\x00\x0b"), []byte("\x7d\x01\x43\x00\x00\x00\x00\x0b"), []byte("\x7c\x01\x44\x00\x00\x00\x00\x00\x00\x00\x00\x0b")}
	if m.vectors {
		a.globals = append(a.globals, []byte("\x7b\x01\xfd\x0c"+strings.Repeat("\x00", 16)+"\x0b"))
	}
	tables := [][]byte{[]byte("\x70\x00\x08")}
	if m.references {
		a.globals = append(a.globals, []byte("\x70\x01\xd0\x70\x0b"), []byte("\x6f\x01\xd0\x6f\x0b"))
		tables = append(tables, []byte("\x70\x00\x04"), []byte("\x6f\x00\x02"))
	}
	export := func(name string, kind, index byte) {
		a.exports = append(a.exports, append(sized([]byte(name)), kind, index))
	}
	export("memory", 2, 0)
	export("probe", 0, ownProbe)
	export("_initialize", 0, ownInit)
	for i := range m.IntN(3) {
		export("exported"+string(rune('0'+i)), 3, byte(i))
	}
	if m.IntN(2) == 0 {
		a.start = uleb(ownStart)
	}
	a.memory = []byte{0, 1}
	numbers := []byte{ownNumber, ownNumber + 1, ownNumber + 2, ownNumber + 3}
	elements := [][]byte{append(append([]byte("\x00\x41\x00\x0b\x08"), numbers...), numbers...)}
	a.datas = [][]byte{append([]byte{0}, append(append([]byte{0x41}, append(sleb(atKey), 0x0b)...), sized([]byte("some letters and more"))...)...)}
	if m.bulk {
		a.datas = append(a.datas, append([]byte{1}, sized([]byte("passive data"))...))
	}
	if m.passive {
		elements = append(elements, append([]byte("\x01\x00\x04"), numbers[3], numbers[2], numbers[1], numbers[0]))
	}
	return a.moduleWith(tables, elements, m.bulk)
}
