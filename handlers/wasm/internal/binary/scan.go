package binary

import (
	"fmt"

	"github.com/tetratelabs/wazero/api"
)

// scan is the result of [scanCode].
// See RATIONALE.md, "Why are modules refused that wazero would accept?"
type scan struct {
	// volatile reports whether an instruction changes state other than memory and globals:
	// table.set, table.grow, table.copy, table.init, table.fill, data.drop or elem.drop.
	volatile bool
	// features are the features beyond WebAssembly 1.0 that the instructions need.
	features api.CoreFeatures
}

// scanCode reads the body of a code section, and adds its functions to metered. It returns an error
// for a function that is too expensive to compile. It also returns an error for bytes that it cannot
// read in the same way as wazero: if two readers see different instructions, a guest can hide one.
func scanCode(code []byte, sigs *signatures, metered *meteredCode) (found scan, err error) {
	r := newReader(code)
	var all effort
	var f function
	for i := range r.items() {
		body := r.Bytes()
		if r.Err != nil {
			break
		}
		f = function{reader: newReader(body), sigs: sigs, labels: f.labels[:0]}
		f.edits = metered.edits[:0]
		f.cuts = metered.cutsOf(r.position()-len(body), body)
		f.labels = append(f.labels, label{arity: arity{out: sigs.ofFunction(sigs.imports + i).out}})
		if err := f.read(); err != nil {
			return found, fmt.Errorf("function %d: %w", i, err)
		}
		metered.counters.Blocks = f.cuts.made
		metered.add(&f)
		found.volatile = found.volatile || f.volatile
		found.features |= f.features
		if err := all.add(&f.effort); err != nil {
			return found, err
		}
	}
	metered.end(&r)
	return found, r.Err
}

// function is one function of a module.
type function struct {
	reader
	scan
	effort
	bill
	cuts   cuts
	sigs   *signatures
	labels []label // of the open blocks; the first is the function itself
}

// label is an open block.
type label struct {
	arity // of a branch to it
	region
}

// read reads the locals and the instructions.
func (f *function) read() error {
	for range f.Count() {
		f.locals += uint64(f.U32())
		f.valueType()
	}
	f.enter()
	for f.Err == nil && len(f.Data) > 0 {
		f.next()
		op := f.Byte()
		f.count(op)
		f.instruction(op)
		f.cut(op)
	}
	f.cuts.finish(f.position())
	if f.Err != nil {
		return f.Err
	}
	return f.tooMuch()
}

// instruction reads one instruction, and adds its effort.
func (f *function) instruction(op byte) {
	switch op {
	case 0x02, 0x03, 0x04: // block, loop, if
		f.block(op)
	case 0x05: // else
		f.branches++
		f.carried += f.label(0).in
		f.otherwise()
	case 0x0b: // end
		f.join()
		f.labels = f.labels[:max(len(f.labels)-1, 0)]
	case 0x0c: // br
		f.branch(f.U32())
		f.run = 0
	case 0x0d: // br_if
		f.branches++
		f.branch(f.U32())
	case 0x0e: // br_table
		ways := f.Count() + 1
		for range ways {
			f.branches++
			f.branch(f.U32())
		}
		f.dispatch(ways)
		f.run = 0
	case 0x10: // call
		to := f.functionIndex()
		f.call(f.sigs.ofFunction(int(to)), int(to) < f.sigs.imports)
	case 0x11: // call_indirect
		f.call(f.sigs.ofType(f.U32()), f.sigs.hostInTable)
		f.U32()
	default:
		f.spend(1)
		f.immediates(op)
	}
}

// block reads the type of a block, a loop or an if. A branch to a loop carries the loop's parameters. A
// branch to a block or an if carries its results.
func (f *function) block(op byte) {
	var sig arity
	switch t := f.blockType(); {
	case t >= 0:
		sig = f.sigs.ofType(uint32(t))
	case t != noType:
		sig.out = 1
	}
	f.branches++
	f.carried += sig.both()
	l := label{arity: arity{in: sig.out, out: sig.out}}
	if op == 0x03 {
		f.loops++
		l.in = sig.in
	}
	l.region = f.open(op)
	f.labels = append(f.labels, l)
}

// label returns the block at a depth. It returns a zero label for an invalid depth, which wazero
// refuses.
func (f *function) label(depth uint32) *label {
	if uint64(depth) >= uint64(len(f.labels)) {
		return new(label)
	}
	return &f.labels[len(f.labels)-1-int(depth)]
}

// branch adds a branch to the block at a depth.
func (f *function) branch(depth uint32) {
	to := f.label(depth)
	f.carried += to.in
	f.spend(1)
	f.leaveTo(&to.region)
}

// call adds a call of a function. host reports whether it may be a host function.
func (f *function) call(sig arity, host bool) {
	f.carried += sig.both()
	f.payCall(sig, host)
}

// immediates reads the immediates of the opcode op.
func (f *function) immediates(op byte) {
	switch {
	case op == 0x00, op == 0x0f: // unreachable, return
		f.run = 0
	case op == 0x01, op == 0x1a, op == 0x1b, 0x45 <= op && op <= 0xbf:
		f.arithmetic(op)
	case 0xc0 <= op && op <= 0xc4: // sign extension
		f.features |= api.CoreFeatureSignExtensionOps
	case 0x20 <= op && op <= 0x22: // locals
		f.U32()
	case op == 0x23, op == 0x24: // globals
		f.globalIndex()
	case 0x28 <= op && op <= 0x3e: // loads and stores
		f.U32()
		f.U32()
	case op == 0x3f: // memory.size
		f.zero()
	case op == 0x40: // memory.grow
		f.zero()
		f.spend(stretch)
	case 0x41 <= op && op <= 0x44:
		f.constant(op)
	case op == 0x1c, op == 0x25, op == 0x26, 0xd0 <= op && op <= 0xd2:
		f.reference(op)
	case op == 0xfc:
		f.bulk()
	case op == 0xfd:
		f.features |= api.CoreFeatureSIMD
		f.vector()
	default:
		f.unsupported(ofOpcode(op), "instruction %#x", op)
	}
}

// noType is the type of a block that takes and leaves no values.
const noType = -64

// blockType reads the type of a block: noType, a negative value type for one result, or the index of a
// signature.
func (r *reader) blockType() int64 {
	t := r.sleb(5)
	switch {
	case r.Err != nil, t == noType, t >= 0:
	case t < noType:
		r.Fail()
	default:
		r.checkType(byte(t & 0x7f))
	}
	return t
}

// constant reads the immediate of i32.const, i64.const, f32.const or f64.const.
func (r *reader) constant(op byte) {
	switch op {
	case 0x41:
		r.sleb(5)
	case 0x42:
		r.sleb(10)
	case 0x43:
		r.Skip(4)
	case 0x44:
		r.Skip(8)
	}
}

// reference reads the immediates of select with a type, table.get, table.set, ref.null,
// ref.is_null and ref.func.
func (f *function) reference(op byte) {
	f.features |= api.CoreFeatureReferenceTypes
	switch op {
	case 0x1c:
		if n := f.Byte(); n != 1 {
			f.Fail()
		}
		f.valueType()
	case 0x25:
		f.U32()
	case 0xd2:
		f.functionIndex()
	case 0x26:
		f.volatile = true
		f.U32()
	case 0xd0:
		f.referenceType()
	}
}

// bulk reads an instruction after the prefix 0xfc. The opcode is a LEB128 integer.
func (f *function) bulk() {
	switch op := f.U32(); {
	case op <= 7: // saturating conversions
		f.features |= api.CoreFeatureNonTrappingFloatToIntConversion
	case op <= 14:
		f.features |= api.CoreFeatureBulkMemoryOperations
		f.bulkMemory(op)
	case op <= 17: // table.grow, table.size, table.fill
		f.features |= api.CoreFeatureReferenceTypes
		f.volatile = f.volatile || op != 16
		f.U32()
		f.loops++ // table.fill is compiled as a loop
		f.payTable()
	default:
		var by *proposal
		if 19 <= op && op <= 22 {
			by = wideArithmetic
		}
		f.unsupported(by, "instruction 0xfc %#x", op)
	}
}

func (f *function) bulkMemory(op uint32) {
	switch op {
	case 8: // memory.init
		f.U32()
		f.zero()
		f.payInit()
	case 9, 13: // data.drop, elem.drop
		f.volatile = true
		f.U32()
	case 10: // memory.copy
		f.branches++
		f.zero()
		f.zero()
		f.replaceBulk(editCopy)
	case 11: // memory.fill, which is compiled as a loop
		f.loops++
		f.zero()
		f.replaceBulk(editFill)
	case 12, 14: // table.init, table.copy
		f.branches++
		f.volatile = true
		f.U32()
		f.U32()
		f.payTable()
	}
}

// vector reads an instruction after the prefix 0xfd. The opcode is one byte, as in wazero, although
// WebAssembly defines it as a LEB128 integer. Its second byte is 1, which wazero reads as a nop. wazero refuses
// unknown opcodes.
func (r *reader) vector() {
	op := r.Byte()
	if op >= 0x80 && len(r.Data) > 0 && r.Data[0] == 2 { // 0x100 to 0x17f, which wazero reads as another opcode and a block
		by := relaxedSIMD
		if op >= 0xa0 {
			by = halfPrecision
		}
		r.unsupported(by, "instruction 0xfd %#x", 0x80+uint32(op))
	}
	switch {
	case op <= 11, op == 92, op == 93: // loads and stores
		r.U32()
		r.U32()
	case op == 12, op == 13: // v128.const, i8x16.shuffle
		r.Skip(16)
	case 21 <= op && op <= 34: // lanes
		r.Skip(1)
	case 84 <= op && op <= 91: // loads and stores of a lane
		r.U32()
		r.U32()
		r.Skip(1)
	}
}
