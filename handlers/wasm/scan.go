package wasm

import "fmt"

// scanCode reads the body of a code section. volatile says that it holds an instruction
// that changes state outside of memory and globals: table.set, table.grow, table.copy,
// table.init, table.fill, data.drop or elem.drop; or one that is unknown, after which
// nothing of its function can be read. The error is that of a function that is too much
// for the compiler.
func scanCode(code []byte) (volatile bool, err error) {
	r := reader{data: code}
	var locals uint64
	for range r.items() {
		size := r.count()
		if r.err != nil {
			return true, r.err
		}
		f := function{reader: reader{data: r.data[:size]}}
		r.skip(size)
		if f.readLocals(); f.err != nil {
			return true, f.err
		}
		changes := f.scan()
		volatile = volatile || changes
		if err := f.tooMuch(); err != nil {
			return true, err
		}
		if locals += f.locals; locals > allLocals {
			return true, fmt.Errorf("more than %d locals in all functions", allLocals)
		}
	}
	return volatile, r.err
}

// function is one function of a module, with what makes it dear to compile.
type function struct {
	reader
	locals   uint64
	loops    int
	branches uint64 // blocks, loops and all that leads to their ends
}

// readLocals reads the groups of locals that the function begins with.
func (f *function) readLocals() {
	for range f.count() {
		f.locals += uint64(f.u32())
		f.valueType()
	}
}

// scan reads the instructions, and reports whether one is volatile.
func (f *function) scan() (volatile bool) {
	for f.err == nil && len(f.data) > 0 {
		op, left := f.data[0], len(f.data)
		changes := f.instruction()
		volatile = volatile || changes
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
	return volatile || f.err != nil
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

// instruction passes over one instruction, and reports whether it changes tables or
// is unknown.
func (r *reader) instruction() bool {
	switch op := r.byte(); {
	case op == 0x41 || op == 0x42: // i32.const, i64.const
		r.leb()
	case op == 0x26: // table.set
		r.u32()
		return true
	case 0x20 <= op && op <= 0x25, op == 0x0c, op == 0x0d, op == 0x10, op == 0x12, op == 0xd2:
		r.u32() // locals, globals, table.get, br, br_if, call, return_call, ref.func
	case 0x45 <= op && op <= 0xc4, op <= 0x01, op == 0x05, op == 0x0b, op == 0x0f, op == 0x1a, op == 0x1b, op == 0xd1:
		// no immediate
	case 0x28 <= op && op <= 0x3e, op == 0x11, op == 0x13:
		r.u32() // loads and stores; call_indirect
		r.u32()
	case 0x02 <= op && op <= 0x04, op == 0xd0: // block, loop, if; ref.null
		r.leb()
	case op == 0x0e: // br_table
		for range r.count() + 1 {
			r.u32()
		}
	case op == 0x1c: // select with types
		r.skip(r.count())
	case op == 0x3f, op == 0x40: // memory.size, memory.grow
		r.skip(1)
	case op == 0x43:
		r.skip(4)
	case op == 0x44:
		r.skip(8)
	case op == 0xfc:
		return r.bulk()
	case op == 0xfd:
		r.vector()
	default:
		r.fail()
		return true
	}
	return false
}

// bulk passes over what follows the prefix 0xfc.
func (r *reader) bulk() bool {
	switch op := r.u32(); {
	case op <= 7: // saturating conversions
	case op == 8, op == 10: // memory.init, memory.copy
		r.u32()
		r.u32()
	case op == 11, op == 16: // memory.fill, table.size
		r.u32()
	case op == 9, op == 13, op == 15, op == 17: // data.drop, elem.drop, table.grow, table.fill
		r.u32()
		return true
	case op == 12, op == 14: // table.init, table.copy
		r.u32()
		r.u32()
		return true
	default:
		r.fail()
		return true
	}
	return false
}

// vector passes over what follows the prefix 0xfd.
func (r *reader) vector() {
	switch op := r.u32(); {
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
