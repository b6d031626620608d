package binary

import "encoding/binary"

// A metered module replaces memory.fill and memory.copy by calls of functions that work in chunks. Each
// chunk is paid for before it is written. Like the instructions, the functions write nothing if a part
// of the range is outside of memory.

// assembly is the body of a function.
type assembly struct {
	code *meteredCode
	out  []byte
}

func (a *assembly) op(bytes ...byte) { a.out = append(a.out, bytes...) }
func (a *assembly) get(local byte)   { a.op(0x20, local) }

func (a *assembly) chunk() { a.out = appendSigned(append(a.out, 0x41), bulkChunk) }

// move adds the size of a chunk to a local, or subtracts it, depending on op.
func (a *assembly) move(local, op byte) {
	a.get(local)
	a.chunk()
	a.op(op, 0x21, local)
}

const (
	opAdd = 0x6a
	opSub = 0x6b
)

// whileLeft branches to a depth while local 2, the number of bytes left, is more than a chunk.
func (a *assembly) whileLeft(depth byte) {
	a.get(2)
	a.chunk()
	a.op(0x4b, 0x0d, depth) // i32.gt_u, br_if
}

// leaveUnless leaves the current block if a range ends outside of memory. The range begins at a local
// and has as many bytes as local 2 says.
func (a *assembly) leaveUnless(local byte) {
	a.get(local)
	a.op(0xad) // i64.extend_i32_u
	a.get(2)
	a.op(0xad, 0x7c)                                           // i64.extend_i32_u, i64.add
	a.op(0x3f, 0x00, 0xad, 0x42, 0x10, 0x86, 0x56, 0x0d, 0x00) // memory.size, i64.extend_i32_u, i64.const 16, i64.shl, i64.gt_u, br_if 0
}

// begin returns the beginning of both functions: a block that is left at once if one chunk suffices.
func (m *meteredCode) begin() *assembly {
	a := &assembly{code: m, out: []byte{0}}
	a.out = m.appendCharge(a.out, unitsOfCall)
	a.op(0x02, 0x40) // block
	a.get(2)
	a.chunk()
	a.op(0x4d, 0x0d, 0x00) // i32.le_u, br_if 0
	return a
}

// units pushes the units that the bytes left cost.
func (a *assembly) units() {
	a.get(2)
	a.op(0xad, 0x42)
	a.out = append(appendSigned(a.out, bulkShift), 0x88) // i64.const, i64.shr_u
}

// rest ends the block, and pays for the rest of the bytes.
func (a *assembly) rest() {
	a.op(0x0b)
	if a.code.counting.Fuel {
		counter := uint64(a.code.counters.First + a.code.current)
		a.out = binary.AppendUvarint(append(a.out, 0x23), counter)
		a.units()
		a.out = binary.AppendUvarint(append(a.out, 0x7c, 0x24), counter) // i64.add, global.set
	}
	a.out = a.code.appendGlobal(a.out, 0x23)
	a.units()
	a.op(0x7d) // i64.sub
	a.out = a.code.appendRefuel(a.code.appendGlobal(a.out, 0x24))
}

// fill returns the body of a function with the parameters of memory.fill: address, value, size.
func (m *meteredCode) fill() []byte {
	a := m.begin()
	a.leaveUnless(0)
	a.op(0x03, 0x40) // loop
	a.out = m.appendCharge(a.out, bulkChunk/bulkUnit)
	a.get(0)
	a.get(1)
	a.chunk()
	a.op(0xfc, 11, 0)
	a.move(0, opAdd)
	a.move(2, opSub)
	a.whileLeft(0)
	a.op(0x0b)
	a.rest()
	a.get(0)
	a.get(1)
	a.get(2)
	a.op(0xfc, 11, 0, 0x0b)
	return a.out
}

// copy returns the body of a function with the parameters of memory.copy: to, from, size. If the
// destination is after the source, it begins with the last chunk, because they may overlap.
func (m *meteredCode) copy() []byte {
	a := m.begin()
	a.leaveUnless(0)
	a.leaveUnless(1)
	a.get(0)
	a.get(1)
	a.op(0x4b, 0x04, 0x40) // i32.gt_u, if
	a.op(0x03, 0x40)       // loop
	a.out = m.appendCharge(a.out, bulkChunk/bulkUnit)
	a.move(2, opSub)
	for _, local := range []byte{0, 1} {
		a.get(local)
		a.get(2)
		a.op(opAdd)
	}
	a.chunk()
	a.op(0xfc, 10, 0, 0)
	a.whileLeft(0)
	a.op(0x0b, 0x05) // end, else
	a.op(0x03, 0x40) // loop
	a.out = m.appendCharge(a.out, bulkChunk/bulkUnit)
	a.get(0)
	a.get(1)
	a.chunk()
	a.op(0xfc, 10, 0, 0)
	a.move(0, opAdd)
	a.move(1, opAdd)
	a.move(2, opSub)
	a.whileLeft(0)
	a.op(0x0b, 0x0b)
	a.rest()
	a.get(0)
	a.get(1)
	a.get(2)
	a.op(0xfc, 10, 0, 0, 0x0b)
	return a.out
}

func appendBody(out, body []byte) []byte {
	return append(binary.AppendUvarint(out, uint64(len(body))), body...)
}
