package wasmfile

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/daeace23/prober/internal/abi"
)

// Imports returns the functions that a module imports, by the module that it imports them
// from and in its order.
func Imports(module []byte) (map[string][]string, error) {
	g, err := Guest(module)
	if err != nil {
		return nil, err
	}
	imports := make(map[string][]string)
	seen := make(map[[2]string]bool)
	for _, f := range g.Imports {
		if key := [2]string{f.Module, f.Name}; !seen[key] {
			seen[key] = true
			imports[f.Module] = append(imports[f.Module], f.Name)
		}
	}
	return imports, nil
}

// The numbers of the sections that Guest reads, and of the kinds of imports and exports.
const (
	typeSection     = 1
	importSection   = 2
	functionSection = 3
	exportSection   = 7

	kindFunction = 0
	kindTable    = 1
	kindMemory   = 2
	kindGlobal   = 3
)

var errGuest = errors.New("malformed")

// Guest returns what a module imports and exports.
func Guest(module []byte) (*abi.Guest, error) {
	sections, err := Sections(module)
	if err != nil {
		return nil, err
	}
	r := guestReader{guest: &abi.Guest{Exports: make(map[string]abi.Signature)}}
	read := map[byte]func(){typeSection: r.types, importSection: r.imports, functionSection: r.functions, exportSection: r.exports}
	for _, s := range sections {
		if section, ok := read[s.ID]; ok {
			r.rest = s.Body
			if section(); r.failed {
				return nil, fmt.Errorf("section %d at byte %d: %w", s.ID, s.Start, errGuest)
			}
		}
	}
	return r.guest, nil
}

// guestReader reads sections. Once something was missing or unknown, it has failed and reads
// zeros.
type guestReader struct {
	rest   []byte
	failed bool

	guest      *abi.Guest
	signatures []abi.Signature
	funcs      []uint64 // the type of each function
}

func (r *guestReader) fail() { r.failed, r.rest = true, nil }

func (r *guestReader) byte() byte {
	if len(r.rest) == 0 {
		r.fail()
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

// number reads an integer of 32 or, as the limits of a 64-bit memory have it, 64 bits.
func (r *guestReader) number() uint64 {
	n, used := binary.Uvarint(r.rest)
	if used <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[used:]
	return n
}

// items returns the length of a vector. Each item has a byte or more.
func (r *guestReader) items() int {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *guestReader) text() string {
	n := r.items()
	text := string(r.rest[:n])
	r.rest = r.rest[n:]
	return text
}

func (r *guestReader) types() {
	for range r.items() {
		if r.byte() != 0x60 {
			r.fail()
		}
		r.signatures = append(r.signatures, abi.Signature{Params: r.valueTypes(), Results: r.valueTypes()})
		if r.failed {
			return
		}
	}
}

// typeNames are those of the types that a signature of the contract has, or may have in its
// place.
var typeNames = map[byte]abi.Type{0x7f: abi.I32, 0x7e: abi.I64, 0x7d: "f32", 0x7c: abi.F64, 0x6f: "externref"}

func (r *guestReader) valueTypes() (types []abi.Type) {
	for range r.items() {
		b := r.byte()
		name, ok := typeNames[b]
		if !ok {
			name = "unknown"
		}
		types = append(types, name)
	}
	return types
}

func (r *guestReader) imports() {
	for range r.items() {
		from, name := r.text(), r.text()
		switch r.byte() {
		case kindFunction:
			index := r.number()
			s := r.signature(index)
			r.funcs = append(r.funcs, index)
			r.guest.Imports = append(r.guest.Imports, abi.Func{Module: from, Name: name, Params: s.Params, Results: s.Results})
		case kindTable:
			r.byte() // the type of its elements
			r.limits()
		case kindMemory:
			r.limits()
		case kindGlobal:
			r.byte()
			r.byte()
		default:
			r.fail()
		}
		if r.failed {
			return
		}
	}
}

func (r *guestReader) limits() {
	flags := r.byte()
	r.number()
	if flags&1 != 0 {
		r.number()
	}
}

func (r *guestReader) functions() {
	for range r.items() {
		r.funcs = append(r.funcs, r.number())
	}
}

func (r *guestReader) signature(index uint64) abi.Signature {
	if index >= uint64(len(r.signatures)) {
		r.fail()
		return abi.Signature{}
	}
	return r.signatures[index]
}

func (r *guestReader) exports() {
	for range r.items() {
		name, kind, index := r.text(), r.byte(), r.number()
		switch {
		case r.failed:
			return
		case kind == kindFunction && index < uint64(len(r.funcs)):
			r.guest.Exports[name] = r.signature(r.funcs[index])
		case kind == kindFunction:
			r.fail()
		case kind == kindMemory && name == abi.ExportMemory:
			r.guest.Memory = true
		}
	}
}
