package binary

import (
	"fmt"

	"github.com/daeace23/prober/internal/wasmfile"
)

// What a module may say that it has. wazero makes room for everything before it reads
// it: a module of fifteen bytes that said it had four billion segments ended the whole
// process, and one function with as many locals took all the memory there is.
const (
	maxItems   = 1 << 20 // of one section, or of one list in it
	maxGlobals = 10_000  // each is an allocation of every instance
	maxParams  = 1000    // of one function; and as many results
	maxLocals  = 50_000  // of one function
	allLocals  = 4 << 20 // of all functions

	maxLoops    = 2000    // of one function; those of real programs have a few hundred
	maxBranches = 20_000  // of one function; those of real programs have two thousand
	maxFlow     = 4 << 20 // branches times locals of one function
	maxCarried  = 200_000 // values in the calls and branches of one function
	allSquares  = 8 << 20
	allFlow     = 128 << 20
	allCarried  = 8 << 20

	maxTypes     = 20_000
	maxTyped     = 200_000 // parameters and results of all types
	maxFunctions = 100_000
	maxImports   = 1000
	maxExports   = 20_000
	maxTables    = 100

	maxName = 64 << 10 // bytes; names are in the text of every trap
)

// checkCounts holds the numbers of a section that is not looked into otherwise against
// what is there and what may be. Where it cannot follow, wazero does not go.
func checkCounts(s wasmfile.Section) error {
	r := reader{data: s.Body}
	switch s.ID {
	case sectionCustom:
		if s.Name == "name" {
			r.names()
		}
	case sectionData:
		r.segments()
	}
	return r.err
}

func (r *reader) failf(format string, args ...any) {
	r.fail()
	r.err = fmt.Errorf(format, args...)
}

// items reads the length of a vector of things that cost more than their bytes.
func (r *reader) items() int { return r.atMost(maxItems, "items in one list") }

func (r *reader) atMost(most int, what string) int {
	n := r.count()
	if n > most {
		r.failf("more than %d %s", most, what)
		return 0
	}
	return n
}

// valueType reads the type of a value. References to a type, which follow 0x63 or 0x64,
// are refused everywhere. No toolchain uses them, and where a select has one, wazero
// compiles other instructions than it has validated: a guest could call any address.
func (r *reader) valueType() { r.checkType(r.byte()) }

func (r *reader) checkType(t byte) {
	if (t < 0x7b || t > 0x7f) && t != 0x70 && t != 0x6f && r.err == nil {
		r.failf("value type %#x is not supported", t)
	}
}

// referenceType reads the type of a reference: funcref or externref.
func (r *reader) referenceType() {
	if t := r.byte(); t != 0x70 && t != 0x6f && r.err == nil {
		r.failf("reference type %#x is not supported", t)
	}
}

// types reads the signatures of functions.
func (r *reader) types() (types []arity) {
	all := uint64(0)
	for range r.atMost(maxTypes, "types") {
		if kind := r.byte(); kind != 0x60 && r.err == nil {
			r.failf("type %#x is not supported", kind)
		}
		t := arity{in: r.values(), out: r.values()}
		if all += t.both(); all > maxTyped {
			r.failf("more than %d parameters and results in all types", maxTyped)
		}
		types = append(types, t)
	}
	return types
}

// values reads the types of parameters or results, and returns how many there are.
func (r *reader) values() uint64 {
	n := r.atMost(maxParams, "parameters or results")
	for range n {
		r.valueType()
	}
	return uint64(n)
}

// expression passes over a constant expression.
func (r *reader) expression() {
	for r.err == nil {
		switch op := r.byte(); {
		case op == 0x0b: // end
			return
		case 0x41 <= op && op <= 0x44:
			r.constant(op)
		case op == 0x23, op == 0xd2: // global.get, ref.func
			r.u32()
		case op == 0xd0: // ref.null
			r.referenceType()
		case op == 0xfd && r.byte() == 0x0c: // v128.const
			r.skip(16)
		default:
			r.unknown(uint32(op), "")
		}
	}
}

// elements passes over the contents of tables, of which there may be so many, and reports
// whether some are left to instructions: to table.init or ref.func.
func (r *reader) elements(most int) (left bool) {
	const passive, indexed, expressions = 1, 2, 4
	for range r.items() {
		flags := r.u32()
		if flags > 7 {
			r.fail()
			return left
		}
		left = left || flags&passive != 0
		if flags&passive == 0 {
			if flags&indexed != 0 {
				r.u32()
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
		if most -= n; most < 0 {
			r.failf("more elements than two for each entry that tables may have")
		}
		for i := 0; i < n && r.err == nil; i++ {
			if flags&expressions != 0 {
				r.expression()
			} else {
				r.u32()
			}
		}
	}
	return left
}

// segments passes over the contents of memory.
func (r *reader) segments() {
	for range r.items() {
		switch r.u32() {
		case 0:
			r.expression()
		case 1: // passive
		case 2:
			r.u32()
			r.expression()
		default:
			r.fail()
		}
		r.skip(r.count())
	}
}

// names passes over the names of the module, of functions and of locals. What comes
// after the end of one list would be read as another one.
func (r *reader) names() {
	for len(r.data) > 0 && r.err == nil {
		kind, size := r.byte(), r.count()
		if r.err != nil {
			return
		}
		part := reader{data: r.data[:size]}
		r.skip(size)
		switch kind {
		case 0:
			part.name()
		case 1:
			part.nameMap()
		case 2:
			for range part.items() {
				part.u32()
				part.nameMap()
			}
		default:
			continue
		}
		switch {
		case part.err != nil:
			r.failf("names: %w", part.err)
		case len(part.data) > 0:
			r.fail()
		}
	}
}

func (r *reader) nameMap() {
	for range r.items() {
		r.u32()
		r.name()
	}
}
