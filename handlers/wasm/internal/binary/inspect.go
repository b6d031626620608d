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

// IDs of sections.
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
	sectionTag       = 13
)

// The kinds of imports and exports that Inspect knows.
const (
	kindFunction = 0
	kindTable    = 1
	kindMemory   = 2
	kindGlobal   = 3
	kindTag      = 4
)

// PageSize is the size of a page of linear memory in bytes.
const PageSize = 64 << 10

// WASI is the import module of the system interface.
const WASI = "wasi_snapshot_preview1"

// Module is a module that [Inspect] has accepted and rewritten.
type Module struct {
	Code      []byte           // the module to compile
	Metered   bool             // it counts the instructions that it runs, see [RefuelName]
	Unmetered string           // why it is not metered
	MinMemory uint64           // initial memory of an instance, in bytes
	Imports   []string         // the modules that it imports from
	Globals   []string         // the names of the exports of its mutable globals
	Volatile  bool             // it has state outside of memory and globals, which an image cannot hold
	Features  api.CoreFeatures // that its instructions and segments need
	Counters  Counters         // empty if it is not metered

	start bool   // it has a start function, exported as StartName
	plain []byte // Code without meters
}

// Plain returns m without meters. m must be a result of [Inspect]. reason becomes m.Unmetered.
func (m *Module) Plain(reason string) *Module {
	plain := *m
	plain.Code, plain.Metered, plain.Unmetered, plain.Counters = withChecks(m.plain), false, reason, Counters{}
	return &plain
}

// WithCode returns m with other code. [Module.Plain] must not be called on the result.
func (m *Module) WithCode(code []byte) *Module {
	other := *m
	other.Code, other.plain = code, nil
	return &other
}

// Inspect reads a module before it is compiled. It refuses a module that would take too much time or
// memory, and rewrites other modules:
//   - Its tables are limited to tableEntries entries in total, because the memory limit does not
//     cover them.
//   - Its mutable globals are exported, so that a reset can restore them.
//   - Its start function becomes an export that the host calls, because the host cannot observe the
//     stack of a call that wazero makes.
//   - It counts the instructions that it runs, if it can be metered.
//   - Its data segments are merged if the gap between them is small. Go's linker makes tens of
//     thousands of segments, and each costs time at every instantiation.
func Inspect(code []byte, tableEntries uint32) (*Module, error) {
	return InspectCounting(code, tableEntries, Counting{})
}

// InspectCounting does what [Inspect] does. The module also counts, if it can be metered.
func InspectCounting(code []byte, tableEntries uint32, counting Counting) (*Module, error) {
	sections, err := wasmfile.Sections(code)
	if err != nil {
		return nil, err
	}
	in := inspection{Module: &Module{}, tableEntries: tableEntries, bodies: make(map[int][]byte), edits: make(map[int][]edit)}
	in.code.sigs, in.code.counting = &in.sigs, counting
	if in.start, err = in.findStart(sections); err != nil {
		return nil, err
	}
	for i, s := range sections {
		if err := checkCounts(s); err != nil {
			return nil, fmt.Errorf("section %d: %w", s.ID, err)
		}
		r := newReader(s.Body)
		if err := in.read(i, s, &r); err != nil {
			return nil, fmt.Errorf("section %d: %w", s.ID, err)
		}
		in.edits[i] = r.edits
		in.code.check(&r)
		if extended := []byte{sectionType, sectionImport, sectionFunction, sectionGlobal, sectionExport}; len(r.Data) > 0 && slices.Contains(extended, s.ID) {
			in.code.refuse(wasmfile.ErrMalformed)
		}
	}
	m := in.Module
	if m.start && in.sigs.ofFunction(int(in.start)) != (arity{}) {
		return nil, errors.New("the start function takes or returns something")
	}
	// Reference types allow too many ways to change a table.
	m.Volatile = m.Volatile || m.Features.IsEnabled(api.CoreFeatureReferenceTypes)
	m.plain = rebuild(code, sections, in.bodies)
	metered, err := in.meter(code, sections)
	if err != nil {
		m = m.Plain(err.Error())
	} else {
		m.Code, m.Metered, m.Counters = metered, true, in.code.counters
	}
	return m, checkModules(m.Imports, in.firsts)
}

// inspection is the state of one [Inspect].
type inspection struct {
	*Module
	firsts       []string // a function of each module in Imports
	tableEntries uint32
	start        uint32         // index of the start function
	sigs         signatures     // from the sections read so far
	counted      bool           // there is a data count section, so instructions may refer to data segments
	bodies       map[int][]byte // new bodies of rewritten sections, by index

	mutable   []uint32       // indices of the mutable globals
	exports   int            // number of the guest's exports
	exportsAt int            // their offset in the section
	segment   int            // size of the largest data segment
	edits     map[int][]edit // edits that meter the sections, by index
	code      meteredCode
}

// read reads the section with index i.
func (in *inspection) read(i int, s wasmfile.Section, r *reader) error {
	switch s.ID {
	case sectionType:
		in.sigs.types = r.types()
	case sectionImport:
		in.Imports, in.firsts = readImports(r, &in.sigs)
	case sectionFunction:
		for range r.atMost(maxFunctions, "functions") {
			in.sigs.functions = append(in.sigs.functions, r.U32())
		}
	case sectionTag:
		r.unsupported(exceptionHandling, "the section of tags")
	case sectionMemory:
		in.MinMemory = readMemory(r)
	case sectionTable:
		in.bodies[i] = clampTables(r, in.tableEntries)
	case sectionGlobal:
		in.readGlobals(r)
	case sectionExport:
		in.bodies[i] = in.addExports(r, in.start)
	case sectionElement:
		if r.elements(2 * int(in.tableEntries)) {
			in.Volatile = true
		}
		in.sigs.hostInTable = slices.ContainsFunc(r.edits, func(e edit) bool { return int(e.units) < in.sigs.imports })
	case sectionCode:
		in.code.startCounting()
		found, err := scanCode(s.Body, &in.sigs, &in.code)
		r.Err = err
		in.Features |= found.features
		in.Volatile = in.Volatile || found.volatile
	case sectionDataCount:
		in.counted = true
		in.Features |= api.CoreFeatureBulkMemoryOperations
	case sectionData:
		in.segment = r.segments()
		if !in.counted {
			in.bodies[i] = mergeData(s.Body)
		}
	}
	return r.Err
}

// findStart returns the index of the start function, and sets m.start if there is one.
func (m *Module) findStart(sections []wasmfile.Section) (start uint32, err error) {
	for _, s := range sections {
		if s.ID != sectionStart {
			continue
		}
		r := newReader(s.Body)
		start = r.U32()
		if r.Err != nil || len(r.Data) > 0 || m.start {
			return 0, fmt.Errorf("section %d: %w", s.ID, wasmfile.ErrMalformed)
		}
		m.start = true
	}
	return start, nil
}

// knownModules returns the import modules of the ABI, in its order, and the one of WASI.
var knownModules = sync.OnceValue(func() []string {
	var names []string
	for _, f := range abi.Imports() {
		if !slices.Contains(names, f.Module) {
			names = append(names, f.Module)
		}
	}
	return append(names, WASI)
})

// checkModules returns an error for an unknown import module. firsts has a function of each module.
func checkModules(imports, firsts []string) error {
	known := knownModules()
	for i, name := range imports {
		if !slices.Contains(known, name) {
			advice := adviceFor(name, firsts[i])
			if advice != "" {
				advice = ". " + advice
			}
			return fmt.Errorf("unknown import module %.80q of the function %.80q; this prober has %s%s", name, firsts[i], strings.Join(known, ", "), advice)
		}
	}
	return nil
}

// readImports returns the names of the imported modules, and the first function of each. Only functions may be
// imported.
func readImports(r *reader, sigs *signatures) (modules, firsts []string) {
	for range r.atMost(maxImports, "imports") {
		module, name := r.name(), r.name()
		if kind := r.Byte(); kind != kindFunction {
			r.refuseImport(module, name, kind)
		}
		sigs.functions = append(sigs.functions, r.U32())
		sigs.imports++
		if r.Err != nil {
			return nil, nil
		}
		if !slices.Contains(modules, module) {
			modules, firsts = append(modules, module), append(firsts, name)
		}
	}
	return modules, firsts
}

// refuseImport fails on an import that is no function.
func (r *reader) refuseImport(module, name string, kind byte) {
	advice := map[byte]string{
		kindTable: "a table: link without --import-table", kindMemory: "a memory: link without --import-memory, shared memory and -pthread",
		kindGlobal: "a global: link a program, not position-independent or shared code", kindTag: "a tag: " + exceptionHandling.off,
	}[kind]
	if advice == "" {
		r.Fail()
	}
	if r.Err == nil {
		r.failf("import %s: only functions can be imported, and this is %s", abi.ImportName(module, name), advice)
	}
}

// readMemory returns the initial size of the memory.
func readMemory(r *reader) uint64 {
	if n := r.Count(); n != 1 {
		if n > 1 {
			r.unsupported(multiMemory, "more than one memory")
		}
		return 0
	}
	if by := ofLimits(r.Byte()); by != nil {
		r.unsupported(by, "this kind of memory")
	}
	return uint64(r.U32()) * PageSize
}

// clampTables returns the table section with a maximum for each table.
func clampTables(r *reader, limit uint32) []byte {
	type table struct {
		kind     byte
		min, max uint32
	}
	var tables []table
	var total uint64
	for range r.atMost(maxTables, "tables") {
		t := table{kind: r.Byte(), max: limit}
		if t.kind == 0x40 { // with a value for its entries
			r.unsupported(functionReferences, "this kind of table")
		} else if t.kind != 0x70 && t.kind != 0x6f {
			r.unsupported(ofType(t.kind), "table of type %#x", t.kind)
		}
		flags := r.Byte()
		if by := ofLimits(flags); by != nil {
			r.unsupported(by, "this kind of table")
		}
		t.min = r.U32()
		switch {
		case r.Err != nil:
			return nil
		case flags > 1:
			r.Err = wasmfile.ErrMalformed
			return nil
		case flags == 1:
			t.max = r.U32()
		}
		total += uint64(t.min)
		tables = append(tables, t)
	}
	if total > uint64(limit) && r.Err == nil {
		r.Err = fmt.Errorf("tables of %d entries; at most %d are allowed", total, limit)
	}
	if r.Err != nil {
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

// rebuild returns code with new bodies of some sections, and without the start section.
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

// reader reads the contents of sections.
type reader struct {
	wasmfile.Reader
	body    []byte // the whole section
	edits   []edit // edits that meter the section; ascending
	globals int64  // larger than every index of a global
}

func newReader(data []byte) reader { return reader{Reader: wasmfile.Reader{Data: data}, body: data} }

// sleb reads a signed LEB128 integer of at most maxBytes bytes.
func (r *reader) sleb(maxBytes int) int64 {
	var n int64
	for shift := 0; shift < 7*maxBytes; shift += 7 {
		b := r.Byte()
		n |= int64(b&0x7f) << shift
		if b&0x80 == 0 {
			if b&0x40 != 0 && shift < 57 {
				n |= -1 << (shift + 7)
			}
			return n
		}
	}
	r.Fail()
	return 0
}

// zero reads a byte that must be 0.
func (r *reader) zero() {
	if r.Byte() != 0 {
		r.Fail()
	}
}

// name reads a name of bounded length.
func (r *reader) name() string {
	n := r.atMost(maxName, "bytes in a name")
	if r.Err != nil {
		return ""
	}
	s := string(r.Data[:n])
	r.Skip(n)
	return s
}
