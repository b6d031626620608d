package binary

import (
	"fmt"

	"github.com/daeace23/prober/internal/wasmfile"
)

// Limits of the declarations in a module. wazero allocates memory for declared items before it reads
// them: a module of fifteen bytes that declares four billion segments would crash the process.
const (
	maxItems   = 1 << 20 // in one section, or in one list of a section
	maxGlobals = 10_000  // each costs every instance an allocation
	maxParams  = 1000    // per function; the same for results
	maxLocals  = 50_000  // per function
	allLocals  = 4 << 20 // in all functions

	maxLoops    = 2000    // per function; real programs have a few hundred
	maxBranches = 20_000  // per function; real programs have two thousand
	maxFlow     = 4 << 20 // branches times locals, per function
	maxCarried  = 200_000 // values in calls and branches, per function
	allSquares  = 8 << 20
	allFlow     = 128 << 20
	allCarried  = 8 << 20

	maxTypes     = 20_000
	maxTyped     = 200_000 // parameters and results of all types
	maxFunctions = 100_000
	maxImports   = 1000
	maxExports   = 20_000
	maxTables    = 100

	maxName = 64 << 10 // bytes; the text of every trap contains names
)

// checkCounts checks the counts in a section that [inspection.read] does not read. It returns an error
// for a malformed section.
func checkCounts(s wasmfile.Section) error {
	r := newReader(s.Body)
	if s.ID == sectionCustom && s.Name == "name" {
		r.names()
	}
	return r.Err
}

// failf sets the error, which replaces an earlier one.
func (r *reader) failf(format string, args ...any) {
	r.Fail()
	r.Err = fmt.Errorf(format, args...)
}

// items reads the length of a vector. The limit matters because items take more memory than bytes in
// the module.
func (r *reader) items() int { return r.atMost(maxItems, "items in one list") }

// atMost reads the length of a vector. A length above limit is an error.
func (r *reader) atMost(limit int, what string) int {
	n := r.Count()
	if n > limit {
		r.failf("more than %d %s", limit, what)
		return 0
	}
	return n
}

// valueType reads the type of a value. It refuses typed references, which begin with 0x63 or 0x64: no
// toolchain emits them, and wazero compiles a select with them differently than it validates it, so
// that a guest could call any address.
func (r *reader) valueType() { r.checkType(r.Byte()) }

func (r *reader) checkType(t byte) {
	if (t < 0x7b || t > 0x7f) && t != 0x70 && t != 0x6f {
		r.unsupported(ofType(t), "value type %#x", t)
	}
}

// referenceType reads the type of a reference: funcref or externref.
func (r *reader) referenceType() {
	if t := r.Byte(); t != 0x70 && t != 0x6f {
		r.unsupported(ofType(t), "reference type %#x", t)
	}
}

// types reads the signatures of functions.
func (r *reader) types() (types []arity) {
	all := uint64(0)
	for range r.atMost(maxTypes, "types") {
		if kind := r.Byte(); kind != 0x60 {
			r.unsupported(ofType(kind), "type %#x", kind)
		}
		t := arity{in: r.values(), out: r.values()}
		if all += t.both(); all > maxTyped {
			r.failf("more than %d parameters and results in all types", maxTyped)
		}
		types = append(types, t)
	}
	return types
}

// values reads the types of parameters or results, and returns their number.
func (r *reader) values() uint64 {
	n := r.atMost(maxParams, "parameters or results")
	for range n {
		r.valueType()
	}
	return uint64(n)
}

// expression skips a constant expression.
func (r *reader) expression() {
	for r.Err == nil {
		switch op := r.Byte(); {
		case op == 0x0b: // end
			return
		case 0x41 <= op && op <= 0x44:
			r.constant(op)
		case op == 0x23: // global.get
			r.globalIndex()
		case op == 0xd2: // ref.func
			r.functionIndex()
		case op == 0xd0: // ref.null
			r.referenceType()
		case op == 0xfd && r.Byte() == 0x0c: // v128.const
			r.Skip(16)
		default:
			r.unsupported(ofConstant(op), "instruction %#x in a constant expression", op)
		}
	}
}

// elements skips the element section, with at most limit elements. It reports whether there are passive
// or declarative segments, which are not written to a table at the start.
func (r *reader) elements(limit int) (left bool) {
	const passive, indexed, expressions = 1, 2, 4
	for range r.items() {
		flags := r.U32()
		if flags > 7 {
			r.Fail()
			return left
		}
		left = left || flags&passive != 0
		if flags&passive == 0 {
			if flags&indexed != 0 {
				r.U32()
			}
			r.expression()
		}
		switch {
		case flags&(passive|indexed) == 0:
		case flags&expressions != 0:
			r.referenceType()
		default:
			r.zero()
		}
		n := r.items()
		if limit -= n; limit < 0 {
			r.failf("more elements than two for each entry that tables may have")
		}
		for i := 0; i < n && r.Err == nil; i++ {
			if flags&expressions != 0 {
				r.expression()
			} else {
				r.functionIndex()
			}
		}
	}
	return left
}

// segments skips the data section, and returns the size of the largest segment.
func (r *reader) segments() (largest int) {
	for range r.items() {
		switch r.U32() {
		case 0:
			r.expression()
		case 1: // passive
		case 2:
			if r.U32() > 0 {
				r.unsupported(multiMemory, "a data segment of another memory")
			}
			r.expression()
		default:
			r.Fail()
		}
		n := r.Count()
		largest = max(largest, n)
		r.Skip(n)
	}
	return largest
}

// names skips the names of the module, of functions and of locals. Bytes after a list are an error,
// because wazero would read them as another list.
func (r *reader) names() {
	for len(r.Data) > 0 && r.Err == nil {
		kind, size := r.Byte(), r.Count()
		if r.Err != nil {
			return
		}
		part := newReader(r.Data[:size])
		r.Skip(size)
		switch kind {
		case 0:
			part.name()
		case 1:
			part.nameMap()
		case 2:
			for range part.items() {
				part.U32()
				part.nameMap()
			}
		default:
			continue
		}
		switch {
		case part.Err != nil:
			r.failf("names: %w", part.Err)
		case len(part.Data) > 0:
			r.Fail()
		}
	}
}

func (r *reader) nameMap() {
	for range r.items() {
		r.U32()
		r.name()
	}
}
