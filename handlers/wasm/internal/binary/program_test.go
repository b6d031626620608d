package binary

import (
	"bytes"
	"encoding/binary"
)

// program generates a valid module from random bytes. The functions compute, branch, loop, call each
// other, use memory and globals, and trap. They always end, because a global counts loops and calls.
type program struct {
	choices []byte
	body    []byte
	labels  []bool // for each open block: whether a branch to it goes back
	bulk    bool
	last    byte
}

const (
	programLocals    = 4      // locals of type i32, after two parameters
	programFunctions = 4      // functions after the import
	programSteps     = 1500   // fewer than the frames of the interpreter, because refuel takes one
	programPage      = 60_000 // most addresses are below this, and so inside memory
)

func (p *program) next(n int) int {
	if len(p.choices) == 0 {
		p.last++ // makes the rest short and varied
		return int(p.last) % n
	}
	b := p.choices[0]
	p.choices = p.choices[1:]
	return int(b) % n
}

func (p *program) op(bytes ...byte) { p.body = append(p.body, bytes...) }

func (p *program) number(op byte, n int64) { p.body = appendSigned(append(p.body, op), n) }

// step traps when the program has run for long enough.
func (p *program) step() {
	p.op(0x23, 0, 0x41, 1, 0x6b, 0x24, 0, 0x23, 0, 0x45, 0x04, 0x40, 0x00, 0x0b)
}

// value adds instructions that push an i32.
func (p *program) value(depth int) {
	kind := p.next(14)
	if depth <= 0 || len(p.choices) == 0 {
		kind %= 3
	}
	switch kind {
	case 0:
		p.number(0x41, int64(p.next(256)-100))
	case 1:
		p.op(0x20, byte(p.next(2+programLocals)))
	case 2:
		p.op(0x23, byte(p.next(2)))
	case 3:
		p.address(depth)
		p.op(0x28, 2, 0)
	case 4, 5, 6:
		p.value(depth - 1)
		p.value(depth - 1)
		p.op([]byte{0x6a, 0x6b, 0x6c, 0x6d, 0x70, 0x71, 0x73, 0x74, 0x78, 0x48, 0x4d}[p.next(11)])
	case 7:
		p.value(depth - 1)
		p.value(depth - 1)
		p.op(0x10, byte(1+p.next(programFunctions)))
	case 8:
		p.value(depth - 1)
		p.value(depth - 1)
		p.value(depth - 1)
		p.op(0x41, 7, 0x71, 0x11, 1, 0)
	case 9:
		p.op(0x3f, 0)
	case 10:
		p.number(0x41, int64(p.next(2)))
		p.op(0x40, 0)
	case 11:
		p.value(depth - 1)
		p.op(0x04, 0x7f)
		p.labels = append(p.labels, true) // no branch target, because the block has a result
		p.value(depth - 1)
		p.op(0x05)
		p.value(depth - 1)
		p.labels = p.labels[:len(p.labels)-1]
		p.op(0x0b)
	case 12: // i64
		p.value(depth - 1)
		p.op(0xad)
		p.op(0x23, 2, 0x7e, 0x22, 2+programLocals, 0x24, 2, 0x20, 2+programLocals, 0xa7)
	case 13: // f64
		p.value(depth - 1)
		p.op(0xb7, 0x9f, 0x23, 3, 0xa0, 0x24, 3, 0x23, 3, 0xbd, 0xa7)
	}
}

// address pushes an address that is usually in memory.
func (p *program) address(depth int) {
	p.value(depth - 1)
	if p.next(20) > 0 {
		p.number(0x41, programPage)
		p.op(0x70)
	}
}

// size pushes the size of a bulk operation, sometimes more than a chunk.
func (p *program) size() {
	p.number(0x41, []int64{0, 1, 100, bulkChunk - 1, bulkChunk, bulkChunk + 1, 2*bulkChunk + 5, 1 << 20, -1}[p.next(9)])
}

// block adds statements in a block that begins with op.
func (p *program) block(depth int, op byte) {
	p.op(op, 0x40)
	p.labels = append(p.labels, op == 0x03)
	if op == 0x03 {
		p.step()
	}
	p.statements(depth - 1)
	if op == 0x04 && p.next(2) == 0 {
		p.op(0x05)
		p.statements(depth - 1)
	}
	if op == 0x03 && p.next(3) > 0 {
		p.value(1)
		p.op(0x0d, 0)
	}
	p.labels = p.labels[:len(p.labels)-1]
	p.op(0x0b)
}

func (p *program) statements(depth int) {
	for range 1 + p.next(4) {
		p.statement(depth)
	}
	for range p.next(60) / 50 * 300 { // sometimes a long stretch
		p.op(0x20, 2, 0x41, 3, 0x6a, 0x21, 2)
	}
}

// target returns a label without results.
func (p *program) target() byte { return byte(p.next(len(p.labels) + 1)) }

func (p *program) valid(depth byte) bool { return int(depth) < len(p.labels) }

func (p *program) statement(depth int) {
	kind := p.next(16)
	if depth <= 0 || len(p.choices) == 0 {
		kind %= 3
	}
	switch kind {
	case 0:
		p.value(depth)
		p.op(0x21, byte(p.next(2+programLocals)))
	case 1:
		p.value(depth)
		p.op(0x24, 1)
	case 2:
		p.address(depth)
		p.value(depth)
		p.op([]byte{0x36, 0x3a}[p.next(2)], 0, byte(p.next(100)))
	case 3, 4:
		p.block(depth, 0x03)
	case 5:
		p.block(depth, 0x02)
	case 6, 7:
		p.value(depth)
		p.block(depth, 0x04)
	case 8, 9:
		if to := p.target(); p.valid(to) {
			p.value(depth)
			p.op(0x0d, to)
		}
	case 10:
		if ways := p.next(5); len(p.labels) > 0 {
			p.op(0x02, 0x40)
			p.value(depth)
			p.op(0x0e, byte(ways))
			for range ways + 1 {
				p.op(byte(p.next(len(p.labels) + 1)))
			}
			p.op(0x0b)
		}
	case 11:
		p.value(depth)
		p.value(depth)
		p.op(0x10, 0)
	case 12:
		if p.bulk = true; p.next(2) == 0 {
			p.address(depth)
			p.value(depth)
			p.size()
			p.op(0xfc, 11, 0)
			return
		}
		p.address(depth)
		p.address(depth)
		p.size()
		p.op(0xfc, 10, 0, 0)
	case 13:
		p.bulk = true
		p.address(depth)
		p.number(0x41, int64(p.next(8)))
		p.number(0x41, int64(p.next(8)))
		p.op(0xfc, 8, 0, 0)
	case 14:
		if p.next(4) == 0 {
			p.value(depth)
			p.op(0x0f)
		}
	case 15:
		if p.next(20) == 0 {
			p.op(0x00)
		}
	}
}

// function returns the body of a function with two parameters and one result. Blocks with a result are
// not branch targets: such a branch goes to the end of the function instead.
func (p *program) function() []byte {
	p.body = []byte{2, programLocals, 0x7f, 1, 0x7e}
	p.step()
	p.labels = p.labels[:0]
	p.statements(4)
	p.value(3)
	p.op(0x0b)
	return append(binary.AppendUvarint(nil, uint64(len(p.body))), p.body...)
}

// module returns a module that exports the functions, the globals, and a memory of two pages that may
// grow to 40.
func (p *program) module() []byte {
	section := func(id byte, parts ...[]byte) []byte {
		body := bytes.Join(parts, nil)
		return append(binary.AppendUvarint([]byte{id}, uint64(len(body))), body...)
	}
	var codes, exports []byte
	for i := range byte(programFunctions) {
		codes = append(codes, p.function()...)
		exports = append(exports, 1, 'a'+i, 0, 1+i)
	}
	for i := range byte(4) {
		exports = append(exports, 1, 'g'+i, 3, i)
	}
	steps := appendSigned([]byte{0x7f, 1, 0x41}, programSteps)
	return bytes.Join([][]byte{
		[]byte("\x00asm\x01\x00\x00\x00"),
		section(1, []byte("\x02\x60\x02\x7f\x7f\x00\x60\x02\x7f\x7f\x01\x7f")),
		section(2, []byte("\x01\x09prober_v1\x07message\x00\x00")),
		section(3, []byte{programFunctions, 1, 1, 1, 1}),
		section(4, []byte("\x01\x70\x00\x07")),
		section(5, []byte("\x01\x01\x02\x28")),
		section(6, []byte{4}, steps, []byte("\x0b\x7f\x01\x41\x05\x0b\x7e\x01\x42\x03\x0b\x7c\x01\x44\x00\x00\x00\x00\x00\x00\xf0\x3f\x0b")),
		section(7, []byte{programFunctions + 4 + 1}, exports, []byte("\x06memory\x02\x00")),
		section(9, []byte("\x01\x00\x41\x00\x0b\x06\x01\x02\x03\x04\x00\x01")), // entries: functions, the import, and null
		section(12, []byte{1}),
		section(10, []byte{programFunctions}, codes),
		section(11, []byte("\x01\x01\x06passiv")),
		section(0, []byte("\x04name"), []byte("\x01\x09\x02\x00\x01h\x01\x03abc"), []byte("\x02\x06\x01\x01\x01\x00\x01x")),
	}, nil)
}
