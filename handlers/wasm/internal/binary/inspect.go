package binary

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/wasmfile"
)

// The numbers of the sections that are looked into.
const (
	sectionCustom    = 0
	sectionType      = 1
	sectionImport    = 2
	sectionFunction  = 3
	sectionTable     = 4
	sectionMemory    = 5
	sectionGlobal    = 6
	sectionExport    = 7
	sectionStart     = 8
	sectionElement   = 9
	sectionCode      = 10
	sectionData      = 11
	sectionDataCount = 12
)

// PageSize is the size of a page of linear memory.
const PageSize = 64 << 10

// WASI is the import module of the system interface.
const WASI = "wasi_snapshot_preview1"

// Module is what is known of a guest's bytes before they are compiled.
type Module struct {
	Code      []byte           // as it is compiled, see [Inspect]
	MinMemory uint64           // bytes that an instance begins with
	Imports   []string         // the modules that it imports from
	Globals   []string         // the names under which the mutable globals are exported
	Volatile  bool             // it has state that memory and globals do not cover: no image holds it
	Features  api.CoreFeatures // that its instructions and segments need

	start bool // it has a function that runs first, exported as StartName
}

var errMalformed = errors.New("malformed module")

// Inspect reads what must be known of a module before it is compiled, and rewrites it:
//   - its tables are clamped to tableEntries entries in all, since the memory limit
//     does not cover them and a guest of 63 bytes could grow one by hundreds of
//     megabytes;
//   - its mutable globals are exported, since a snapshot must put them back;
//   - its start function is exported and no longer the runtime's to call, for the host
//     counts the stack of what it calls itself;
//   - its data segments are merged where they nearly touch: the linker of Go leaves
//     tens of thousands of them, each of which costs at every instantiation.
func Inspect(code []byte, tableEntries uint32) (*Module, error) {
	sections, err := wasmfile.Sections(code)
	if err != nil {
		return nil, err
	}
	in := inspection{Module: &Module{}, tableEntries: tableEntries, bodies: make(map[int][]byte)}
	if in.start, err = in.findStart(sections); err != nil {
		return nil, err
	}
	for i, s := range sections {
		if err := checkCounts(s); err != nil {
			return nil, fmt.Errorf("section %d: %w", s.ID, err)
		}
		if err := in.read(i, s); err != nil {
			return nil, fmt.Errorf("section %d: %w", s.ID, err)
		}
	}
	m := in.Module
	// No other feature has as many ways to change a table, and a module that needs it gains little by a reset.
	m.Volatile = m.Volatile || m.Features.IsEnabled(api.CoreFeatureReferenceTypes)
	m.Code = rebuild(code, sections, in.bodies)
	return m, checkModules(m.Imports)
}

// inspection is the state of one [Inspect], from section to section.
type inspection struct {
	*Module
	tableEntries uint32
	start        uint32         // number of the start function
	sigs         signatures     // of the sections so far
	counted      bool           // there is a data count section, so instructions may refer to data segments
	bodies       map[int][]byte // new bodies of the sections that are rewritten
}

// read reads the section with index i.
func (in *inspection) read(i int, s wasmfile.Section) error {
	r := reader{data: s.Body}
	switch s.ID {
	case sectionType:
		in.sigs.types = r.types()
	case sectionImport:
		in.Imports = readImports(&r, &in.sigs)
	case sectionFunction:
		for range r.atMost(maxFunctions, "functions") {
			in.sigs.functions = append(in.sigs.functions, r.u32())
		}
	case sectionMemory:
		in.MinMemory = readMemory(&r)
	case sectionTable:
		in.bodies[i] = clampTables(&r, in.tableEntries)
	case sectionGlobal:
		in.readGlobals(&r)
	case sectionExport:
		in.bodies[i] = in.addExports(&r, in.start)
	case sectionElement:
		if r.elements(2 * int(in.tableEntries)) {
			in.Volatile = true
		}
	case sectionCode:
		found, err := scanCode(s.Body, &in.sigs)
		r.err = err
		in.Features |= found.features
		in.Volatile = in.Volatile || found.volatile
	case sectionDataCount:
		in.counted = true
		in.Features |= api.CoreFeatureBulkMemoryOperations
	case sectionData:
		if !in.counted {
			in.bodies[i] = mergeData(s.Body)
		}
	}
	return r.err
}

// findStart returns the number of the function that runs first.
func (m *Module) findStart(sections []wasmfile.Section) (start uint32, err error) {
	for _, s := range sections {
		if s.ID != sectionStart {
			continue
		}
		r := reader{data: s.Body}
		start = r.u32()
		if r.err != nil || len(r.data) > 0 || m.start {
			return 0, fmt.Errorf("section %d: %w", s.ID, errMalformed)
		}
		m.start = true
	}
	return start, nil
}

// knownModules returns the import modules of the ABI, in its order, and that of WASI.
var knownModules = sync.OnceValue(func() []string {
	var names []string
	for _, f := range abi.Imports() {
		if !slices.Contains(names, f.Module) {
			names = append(names, f.Module)
		}
	}
	return append(names, WASI)
})

// checkModules refuses import modules that this version does not have.
func checkModules(imports []string) error {
	known := knownModules()
	for _, name := range imports {
		if !slices.Contains(known, name) {
			return fmt.Errorf("unknown import module %q; this prober has %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// readImports returns the modules that are imported from. Only functions may be.
func readImports(r *reader, sigs *signatures) []string {
	var modules []string
	for range r.atMost(maxImports, "imports") {
		module, name := r.name(), r.name()
		kind := r.byte()
		if kind != 0 && r.err == nil {
			r.err = fmt.Errorf("import %s.%s: only functions can be imported", module, name)
		}
		sigs.functions = append(sigs.functions, r.u32())
		sigs.imports++
		if r.err != nil {
			return nil
		}
		if !slices.Contains(modules, module) {
			modules = append(modules, module)
		}
	}
	return modules
}

// readMemory returns the size that the memory begins with.
func readMemory(r *reader) uint64 {
	if n := r.count(); n != 1 {
		if n > 1 && r.err == nil {
			r.err = errors.New("more than one memory")
		}
		return 0
	}
	r.byte()
	return uint64(r.u32()) * PageSize
}

// clampTables returns the table section anew, with a maximum for each table.
func clampTables(r *reader, limit uint32) []byte {
	type table struct {
		kind     byte
		min, max uint32
	}
	var tables []table
	var total uint64
	for range r.atMost(maxTables, "tables") {
		t := table{kind: r.byte(), max: limit}
		flags := r.byte()
		t.min = r.u32()
		switch {
		case r.err != nil:
			return nil
		case flags > 1 || t.kind != 0x70 && t.kind != 0x6f:
			r.err = errMalformed
			return nil
		case flags == 1:
			t.max = r.u32()
		}
		total += uint64(t.min)
		tables = append(tables, t)
	}
	if total > uint64(limit) && r.err == nil {
		r.err = fmt.Errorf("tables of %d entries; at most %d are allowed", total, limit)
	}
	if r.err != nil {
		return nil
	}
	out := binary.AppendUvarint(nil, uint64(len(tables)))
	room := (limit - uint32(total)) / max(1, uint32(len(tables)))
	for _, t := range tables {
		out = append(out, t.kind, 1)
		out = binary.AppendUvarint(out, uint64(t.min))
		out = binary.AppendUvarint(out, uint64(min(t.max, t.min+room)))
	}
	return out
}

// rebuild returns code with the bodies of some sections replaced, and without the start
// section. A nil body leaves a section as it is.
func rebuild(code []byte, sections []wasmfile.Section, bodies map[int][]byte) []byte {
	out := make([]byte, 0, len(code)+len(code)/16)
	out = append(out, code[:8]...)
	for i, s := range sections {
		if s.ID == sectionStart {
			continue
		}
		if body := bodies[i]; body != nil {
			out = append(out, s.ID)
			out = binary.AppendUvarint(out, uint64(len(body)))
			out = append(out, body...)
			continue
		}
		end := len(code)
		if i+1 < len(sections) {
			end = sections[i+1].Start
		}
		out = append(out, code[s.Start:end]...)
	}
	return out
}

// reader reads the binary format. After an error it reads zeros.
type reader struct {
	data []byte
	err  error
}

func (r *reader) fail() {
	if r.err == nil {
		r.err = errMalformed
	}
	r.data = nil
}

func (r *reader) byte() byte {
	if len(r.data) == 0 {
		r.fail()
		return 0
	}
	b := r.data[0]
	r.data = r.data[1:]
	return b
}

func (r *reader) skip(n int) {
	if n > len(r.data) {
		r.fail()
		return
	}
	r.data = r.data[n:]
}

func (r *reader) u32() uint32 {
	v, n := binary.Uvarint(r.data[:min(len(r.data), 5)])
	if n <= 0 || v > 1<<32-1 {
		r.fail()
		return 0
	}
	r.data = r.data[n:]
	return uint32(v)
}

// sleb reads a number with its sign, of so many bytes at most.
func (r *reader) sleb(most int) int64 {
	var n int64
	for shift := 0; shift < 7*most; shift += 7 {
		b := r.byte()
		n |= int64(b&0x7f) << shift
		if b&0x80 == 0 {
			if b&0x40 != 0 && shift < 57 {
				n |= -1 << (shift + 7)
			}
			return n
		}
	}
	r.fail()
	return 0
}

// zero reads a byte that must be 0.
func (r *reader) zero() {
	if r.byte() != 0 {
		r.fail()
	}
}

// count reads the length of a vector, whose items have a byte each at least.
func (r *reader) count() int {
	n := r.u32()
	if uint64(n) > uint64(len(r.data)) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) name() string {
	n := r.atMost(maxName, "bytes in a name")
	if r.err != nil {
		return ""
	}
	s := string(r.data[:n])
	r.data = r.data[n:]
	return s
}
