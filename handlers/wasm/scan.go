package wasm

// changesTables reports whether the body of a code section holds an instruction that
// changes state outside of memory and globals: table.set, table.grow, table.copy,
// table.init, table.fill, data.drop or elem.drop. It answers true for what it cannot
// read.
func changesTables(code []byte) bool {
	r := reader{data: code}
	for range r.count() {
		size := r.count()
		if r.err != nil {
			return true
		}
		body := reader{data: r.data[:size]}
		r.skip(size)
		for range body.count() { // groups of locals
			body.u32()
			body.byte()
		}
		for body.err == nil && len(body.data) > 0 {
			if body.instruction() {
				return true
			}
		}
		if body.err != nil {
			return true
		}
	}
	return r.err != nil
}

// instruction passes over one instruction, and reports whether it changes tables or
// is unknown.
func (r *reader) instruction() bool {
	switch op := r.byte(); {
	case op == 0x41 || op == 0x42: // i32.const, i64.const
		r.leb()
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
	default: // table.set among them
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
	default:
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
