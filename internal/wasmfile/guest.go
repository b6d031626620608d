package wasmfile

import (
	"fmt"

	"github.com/daeace23/prober/internal/abi"
)

// Imports returns the names of the functions that a module imports, in order, by the name of the module
// that exports them.
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

// The numbers of the sections that [Guest] reads, and of the kinds of imports and exports.
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

// Guest returns the imports and exports of a module.
func Guest(module []byte) (*abi.Guest, error) {
	r, err := readGuest(module)
	if err != nil {
		return nil, err
	}
	return r.guest, nil
}

func readGuest(module []byte) (*guestReader, error) {
	sections, err := Sections(module)
	if err != nil {
		return nil, err
	}
	r := &guestReader{guest: &abi.Guest{Exports: make(map[string]abi.Signature)}}
	read := map[byte]func(){typeSection: r.types, importSection: r.imports, functionSection: r.functions, exportSection: r.exports}
	for _, s := range sections {
		if section, ok := read[s.ID]; ok {
			r.Reader = Reader{Data: s.Body}
			if section(); r.Err != nil {
				return nil, fmt.Errorf("section %d at byte %d: %w", s.ID, s.Start, r.Err)
			}
		}
	}
	return r, nil
}

// guestReader reads the sections for [Guest].
type guestReader struct {
	Reader
	guest         *abi.Guest
	signatures    []abi.Signature
	funcs         []uint32 // index of the type of each function
	importsMemory bool
}

func (r *guestReader) types() {
	for range r.Count() {
		if r.Byte() != 0x60 {
			r.Fail()
		}
		r.signatures = append(r.signatures, abi.Signature{Params: r.valueTypes(), Results: r.valueTypes()})
		if r.Err != nil {
			return
		}
	}
}

// typeNames has the names of value types. Types without a constant in abi only appear in error messages.
var typeNames = map[byte]abi.Type{0x7f: abi.I32, 0x7e: abi.I64, 0x7d: "f32", 0x7c: abi.F64, 0x6f: "externref"}

func (r *guestReader) valueTypes() (types []abi.Type) {
	for range r.Count() {
		b := r.Byte()
		name, ok := typeNames[b]
		if !ok {
			name = "unknown"
		}
		types = append(types, name)
	}
	return types
}

func (r *guestReader) imports() {
	for range r.Count() {
		from, name := string(r.Bytes()), string(r.Bytes())
		switch kind, index := r.importType(); kind {
		case kindFunction:
			s := r.signature(index)
			r.funcs = append(r.funcs, index)
			r.guest.Imports = append(r.guest.Imports, abi.Func{Module: from, Name: name, Params: s.Params, Results: s.Results})
		case kindMemory:
			r.importsMemory = true
		}
		if r.Err != nil {
			return
		}
	}
}

func (r *guestReader) functions() {
	for range r.Count() {
		r.funcs = append(r.funcs, r.U32())
	}
}

func (r *guestReader) signature(index uint32) abi.Signature {
	if uint64(index) >= uint64(len(r.signatures)) {
		r.Fail()
		return abi.Signature{}
	}
	return r.signatures[index]
}

func (r *guestReader) exports() {
	for range r.Count() {
		name, kind, index := string(r.Bytes()), r.Byte(), r.U32()
		switch {
		case r.Err != nil:
			return
		case kind == kindFunction && uint64(index) < uint64(len(r.funcs)):
			r.guest.Exports[name] = r.signature(r.funcs[index])
		case kind == kindFunction:
			r.Fail()
		case kind == kindMemory && name == abi.ExportMemory:
			r.guest.Memory = true
		}
	}
}
