package wasm

import (
	"fmt"

	"github.com/tetratelabs/wazero/api"
)

// scan is what the code section of a module needs and does.
type scan struct {
	// volatile says that an instruction changes state outside of memory and globals:
	// table.set, table.grow, table.copy, table.init, table.fill, data.drop or elem.drop.
	volatile bool
	// features are those that the instructions need, beyond WebAssembly 1.0.
	features api.CoreFeatures
}

// scanCode reads the body of a code section. It reads as wazero does, and refuses what it
// cannot read: behind an instruction that two readers find in different places, anything
// can hide. The error is also that of a function that is too much for the compiler.
func scanCode(code []byte) (found scan, err error) {
	r := reader{data: code}
	var locals uint64
	for i := range r.items() {
		body := r.bytes()
		if r.err != nil {
			break
		}
		f := function{reader: reader{data: body}}
		if err := f.read(); err != nil {
			return found, fmt.Errorf("function %d: %w", i, err)
		}
		found.volatile = found.volatile || f.volatile
		found.features |= f.features
		if locals += f.locals; locals > allLocals {
			return found, fmt.Errorf("more than %d locals in all functions", allLocals)
		}
	}
	return found, r.err
}

// function is one function of a module, with what makes it dear to compile.
type function struct {
	reader
	scan
	locals   uint64
	loops    int
	branches uint64 // blocks, loops and all that leads to their ends
}

// read reads locals and instructions.
func (f *function) read() error {
	for range f.count() {
		f.locals += uint64(f.u32())
		f.valueType()
	}
	for f.err == nil && len(f.data) > 0 {
		op, left := f.byte(), len(f.data)
		f.immediates(op)
		switch {
		case op == 0x03:
			f.loops++
			f.branches++
		case op == 0x02, op == 0x04, op == 0x05, op == 0x0d:
			f.branches++
		case op == 0x0e: // a byte at least for each branch
			f.branches += uint64(left - len(f.data))
		}
	}
	if f.err != nil {
		return f.err
	}
	return f.tooMuch()
}

// tooMuch says why the function may not be compiled. wazero takes time and memory with
// the square of the loops, and with the product of branches and locals: 137 kB of module
// took 3 GB and 24 seconds.
func (f *function) tooMuch() error {
	switch {
	case f.locals > maxLocals:
		return fmt.Errorf("more than %d locals in one function", maxLocals)
	case f.loops > maxLoops:
		return fmt.Errorf("more than %d loops in one function", maxLoops)
	case f.branches > maxBranches, f.branches*f.locals > maxFlow:
		return fmt.Errorf("more than %d branches in one function, or %d times its locals", maxBranches, maxFlow)
	}
	return nil
}

// immediates reads what follows the opcode op.
func (f *function) immediates(op byte) {
	switch {
	case op <= 0x01, op == 0x05, op == 0x0b, op == 0x0f, op == 0x1a, op == 0x1b, 0x45 <= op && op <= 0xbf:
		// none
	case 0xc0 <= op && op <= 0xc4: // sign extension
		f.features |= api.CoreFeatureSignExtensionOps
	case 0x02 <= op && op <= 0x04: // block, loop, if
		f.blockType()
	case op == 0x0c, op == 0x0d, op == 0x10, 0x20 <= op && op <= 0x24: // br, br_if, call, locals, globals
		f.u32()
	case op == 0x0e: // br_table
		for range f.count() + 1 {
			f.u32()
		}
	case op == 0x11, 0x28 <= op && op <= 0x3e: // call_indirect, loads and stores
		f.u32()
		f.u32()
	case op == 0x3f, op == 0x40: // memory.size, memory.grow
		f.zero()
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
		f.unknown(uint32(op), "")
	}
}

func (r *reader) unknown(op uint32, prefix string) {
	if r.err == nil {
		r.failf("instruction %s%#x is not supported", prefix, op)
	}
}

// blockType reads the type of a block: none, that of one result, or the number of a
// signature.
func (r *reader) blockType() {
	const none = -64
	switch t := r.sleb(5); {
	case r.err != nil, t == none, t >= 0:
	case t < none:
		r.fail()
	default:
		r.checkType(byte(t & 0x7f))
	}
}

// constant reads the number of i32.const, i64.const, f32.const or f64.const.
func (r *reader) constant(op byte) {
	switch op {
	case 0x41:
		r.sleb(5)
	case 0x42:
		r.sleb(10)
	case 0x43:
		r.skip(4)
	case 0x44:
		r.skip(8)
	}
}

// reference reads what follows select with a type, table.get, table.set, ref.null,
// ref.is_null and ref.func.
func (f *function) reference(op byte) {
	f.features |= api.CoreFeatureReferenceTypes
	switch op {
	case 0x1c:
		if n := f.byte(); n != 1 {
			f.fail()
		}
		f.valueType()
	case 0x25, 0xd2:
		f.u32()
	case 0x26:
		f.volatile = true
		f.u32()
	case 0xd0:
		f.referenceType()
	}
}

// bulk reads what follows the prefix 0xfc: an opcode of any length.
func (f *function) bulk() {
	switch op := f.u32(); {
	case op <= 7: // saturating conversions
		f.features |= api.CoreFeatureNonTrappingFloatToIntConversion
	case op <= 14:
		f.features |= api.CoreFeatureBulkMemoryOperations
		f.bulkMemory(op)
	case op <= 17: // table.grow, table.size, table.fill
		f.features |= api.CoreFeatureReferenceTypes
		f.volatile = f.volatile || op != 16
		f.u32()
	default:
		f.unknown(op, "0xfc ")
	}
}

func (f *function) bulkMemory(op uint32) {
	switch op {
	case 8: // memory.init
		f.u32()
		f.zero()
	case 9, 13: // data.drop, elem.drop
		f.volatile = true
		f.u32()
	case 10: // memory.copy
		f.zero()
		f.zero()
	case 11: // memory.fill
		f.zero()
	case 12, 14: // table.init, table.copy
		f.volatile = true
		f.u32()
		f.u32()
	}
}

// vector reads what follows the prefix 0xfd. The opcode is one byte, as wazero reads it,
// and not a number of any length, as WebAssembly has it. wazero refuses those that it
// does not know.
func (r *reader) vector() {
	switch op := r.byte(); {
	case op <= 11, op == 92, op == 93: // loads and stores
		r.u32()
		r.u32()
	case op == 12, op == 13: // v128.const, i8x16.shuffle
		r.skip(16)
	case 21 <= op && op <= 34: // lanes
		r.skip(1)
	case 84 <= op && op <= 91: // loads and stores of a lane
		r.u32()
		r.u32()
		r.skip(1)
	}
}
