package binary

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/daeace23/prober/internal/wasmfile"
)

// The import and the export of a metered module. Other modules must not have them.
const (
	// RefuelModule and RefuelName name the function that a charge calls when the fuel is below
	// zero. It has neither parameters nor results.
	RefuelModule = reservedPrefix + "host"
	RefuelName   = "refuel"

	// FuelName is the name of the exported global that holds the fuel, an i64.
	FuelName = reservedPrefix + "fuel"
)

// maxMetered is the maximum ratio of the sizes of a metered module and the original.
const maxMetered = 3

// meteredCode collects the functions of a metered module.
type meteredCode struct {
	sigs  *signatures
	edits []edit // edits of one function; reused
	out   []byte
	body  []byte // body of one function; reused
	all   effort
	count int  // number of functions
	bulk  bool // memory.fill or memory.copy is used
	inits bool // memory.init is used
	table bool // a bulk operation on tables is used
	err   error

	counting Counting
	counters Counters
	current  int // index of the function whose code is written, among those that the module defines
}

// refuse sets the reason why the module is not metered. The first reason stays.
func (m *meteredCode) refuse(err error) {
	if m.err == nil {
		m.err = err
	}
}

// add appends a function that has been scanned.
func (m *meteredCode) add(f *function) {
	m.edits = f.edits
	m.inits, m.table = m.inits || f.inits, m.table || f.tables
	m.bulk = m.bulk || f.usesBulk
	m.check(&f.reader)
	more := f.effort
	more.branches += 2 * f.charges
	if err := more.tooMuch(); err != nil {
		m.refuse(fmt.Errorf("with fuel: %w", err))
	}
	if err := m.all.add(&more); err != nil {
		m.refuse(fmt.Errorf("with fuel: %w", err))
	}
	if m.err != nil {
		return
	}
	m.current = m.count
	m.body = m.apply(m.body[:0], f.body, f.edits, f.locals)
	m.out = append(binary.AppendUvarint(m.out, uint64(len(m.body))), m.body...)
	m.count++
}

// end finishes the code section.
func (m *meteredCode) end(r *reader) {
	if r.Err != nil || len(r.Data) > 0 || m.count != len(m.sigs.functions)-m.sigs.imports {
		m.refuse(wasmfile.ErrMalformed)
	}
}

// check refuses indices of functions and globals that the module does not have, because they could
// refer to the added ones.
func (m *meteredCode) check(r *reader) {
	for i := range r.edits {
		if e := &r.edits[i]; e.kind == editIndex && uint64(e.units) >= uint64(len(m.sigs.functions)) {
			m.refuse(wasmfile.ErrMalformed)
		}
	}
	if r.globals > int64(m.sigs.globals) {
		m.refuse(wasmfile.ErrMalformed)
	}
}

// apply appends body to out with edits applied.
func (m *meteredCode) apply(out, body []byte, edits []edit, locals uint64) []byte {
	from := 0
	for i := range edits {
		e := &edits[i]
		out = append(out, body[from:e.at]...)
		from = e.end
		switch e.kind {
		case editIndex:
			out = binary.AppendUvarint(out, uint64(m.shifted(e.units)))
		case editCharge, editFixed:
			out = m.appendCharge(out, e.price(locals))
		case editCount:
			out = m.appendCount(out, m.counters.Fuel+int(e.units), 1)
		case editFill:
			out = binary.AppendUvarint(append(out, 0x10), uint64(m.fillIndex()))
		case editCopy:
			out = binary.AppendUvarint(append(out, 0x10), uint64(m.fillIndex()+1))
		}
	}
	return append(out, body[from:]...)
}

// shifted returns the index of a function after the import has been added.
func (m *meteredCode) shifted(function uint32) uint32 {
	if uint64(function) >= uint64(m.sigs.imports) {
		function++
	}
	return function
}

// fillIndex returns the index of the first added function.
func (m *meteredCode) fillIndex() uint32 { return uint32(len(m.sigs.functions)) + 1 }

// appendCharge appends: fuel -= units; if fuel < 0 { refuel() }
func (m *meteredCode) appendCharge(out []byte, units uint64) []byte {
	out = m.appendSpent(out, units)
	out = m.appendGlobal(out, 0x23)
	out = append(appendSigned(append(out, 0x42), int64(units)), 0x7d)
	out = m.appendGlobal(out, 0x24)
	return m.appendRefuel(out)
}

// appendRefuel appends: if fuel < 0 { refuel() }
func (m *meteredCode) appendRefuel(out []byte) []byte {
	out = append(m.appendGlobal(out, 0x23), 0x42, 0x00, 0x53, 0x04, 0x40, 0x10)
	return append(binary.AppendUvarint(out, uint64(m.sigs.imports)), 0x0b)
}

// appendGlobal appends global.get or global.set of the fuel.
func (m *meteredCode) appendGlobal(out []byte, op byte) []byte {
	return binary.AppendUvarint(append(out, op), uint64(m.sigs.globals))
}

// meter returns the metered module, or an error that says why it cannot be metered.
func (in *inspection) meter(code []byte, sections []wasmfile.Section) ([]byte, error) {
	m := &in.code
	switch {
	case m.err != nil:
		return nil, m.err
	case m.count == 0 || in.exports == 0 || in.sigs.unknown:
		return nil, wasmfile.ErrMalformed
	case m.inits && in.segment > bulkChunk:
		return nil, fmt.Errorf("memory.init of a segment of %d bytes; at most %d can be metered", in.segment, bulkChunk)
	case m.table && in.tableEntries > meteredTable:
		return nil, fmt.Errorf("bulk operations on a table of %d entries; at most %d can be metered", in.tableEntries, meteredTable)
	}
	if err := m.checkCounting(); err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(code)+len(m.out)+len(code)/8)
	out = append(out, code[:8]...)
	last := byte(0)
	for i, s := range sections {
		if s.ID != sectionCustom {
			if s.ID <= last && last != sectionDataCount || s.ID > sectionDataCount {
				return nil, wasmfile.ErrMalformed
			}
			out = in.appendMissing(out, last, s.ID)
			last = s.ID
		}
		body, err := in.meteredSection(i, s)
		if err != nil {
			return nil, err
		}
		if body != nil {
			out = append(binary.AppendUvarint(append(out, s.ID), uint64(len(body))), body...)
		}
	}
	if most := maxMetered*len(code) + PageSize; len(out) > most && (m.counters.all() == 0 || len(out) > most+(maxCounted-maxMetered)*len(code)) {
		return nil, errors.New("it would become too large")
	}
	return out, nil
}

// appendMissing appends the sections between the sections last and next that a metered module needs
// and that the module does not have.
func (in *inspection) appendMissing(out []byte, last, next byte) []byte {
	if last < sectionImport && next > sectionImport {
		body := in.appendImport([]byte{1})
		out = append(binary.AppendUvarint(append(out, sectionImport), uint64(len(body))), body...)
	}
	if last < sectionGlobal && next > sectionGlobal {
		body := in.appendGlobals(binary.AppendUvarint(nil, uint64(in.addedGlobals())))
		out = append(binary.AppendUvarint(append(out, sectionGlobal), uint64(len(body))), body...)
	}
	return out
}

func (in *inspection) appendImport(out []byte) []byte {
	out = append(append(out, byte(len(RefuelModule))), RefuelModule...)
	out = append(append(out, byte(len(RefuelName))), RefuelName...)
	return binary.AppendUvarint(append(out, kindFunction), uint64(len(in.sigs.types)))
}

// addedGlobals returns the number of added globals.
func (in *inspection) addedGlobals() int { return 1 + in.code.counters.all() }

// appendGlobals appends the global that holds the fuel, and the counters: mutable i64 with the initial value 0.
func (in *inspection) appendGlobals(out []byte) []byte {
	for range in.addedGlobals() {
		out = append(out, 0x7e, 0x01, 0x42, 0x00, 0x0b)
	}
	return out
}

// meteredSection returns the new body of a section, or nil to omit the section. The body of a custom
// section includes its name.
func (in *inspection) meteredSection(i int, s wasmfile.Section) ([]byte, error) {
	m, edits := &in.code, in.edits[i]
	switch s.ID {
	case sectionCustom:
		if s.Name != "name" {
			return nil, nil
		}
		return m.names(s.Body)
	case sectionStart:
		return nil, nil
	case sectionType:
		return m.extend(s.Body, 2, "\x60\x00\x00"+"\x60\x03\x7f\x7f\x7f\x00"), nil
	case sectionImport:
		return m.extend(s.Body, 1, string(in.appendImport(nil))), nil
	case sectionFunction:
		kind := string(binary.AppendUvarint(nil, uint64(len(in.sigs.types))+1))
		return m.extend(s.Body, 2*m.helpers(), kind+kind), nil
	case sectionGlobal:
		return m.extend(m.apply(nil, s.Body, edits, 0), in.addedGlobals(), string(in.appendGlobals(nil))), nil
	case sectionExport:
		own := in.ownExports(m.shifted(in.start), 1)
		own = appendExport(own, FuelName, kindGlobal, uint32(in.sigs.globals))
		return append(own, m.apply(nil, s.Body, edits, 0)[in.exportsAt:]...), nil
	case sectionElement:
		return m.apply(nil, s.Body, edits, 0), nil
	case sectionCode:
		out := binary.AppendUvarint(make([]byte, 0, len(m.out)+512), uint64(m.count+2*m.helpers()))
		out = append(out, m.out...)
		if m.bulk {
			m.current = m.count
			out = appendBody(out, m.fill())
			m.current++
			out = appendBody(out, m.copy())
		}
		return out, nil
	}
	if body := in.bodies[i]; body != nil {
		return body, nil
	}
	return s.Body, nil
}

// helpers returns 1 if the functions for bulk operations are added, and 0 otherwise.
func (m *meteredCode) helpers() int {
	if m.bulk {
		return 1
	}
	return 0
}

// extend returns vector with items appended. more is their number. If it is 0, vector does not change.
func (m *meteredCode) extend(vector []byte, more int, items string) []byte {
	if more == 0 {
		return vector
	}
	r := newReader(vector)
	n := r.U32()
	out := binary.AppendUvarint(make([]byte, 0, len(vector)+len(items)+1), uint64(n)+uint64(more))
	return append(append(out, r.Data...), items...)
}

// names returns the name section with the names of functions and locals, under the new function
// indices.
func (m *meteredCode) names(section []byte) ([]byte, error) {
	out := append([]byte{4}, "name"...)
	r := newReader(section)
	for len(r.Data) > 0 && r.Err == nil {
		kind := r.Byte()
		part := newReader(r.Bytes())
		switch kind {
		case 0:
			part.name()
		case 1:
			for range part.items() {
				part.functionIndex()
				part.name()
			}
		case 2:
			for range part.items() {
				part.functionIndex()
				part.nameMap()
			}
		default:
			continue
		}
		if part.Err != nil {
			return nil, part.Err
		}
		body := m.apply(nil, part.body, part.edits, 0)
		out = append(binary.AppendUvarint(append(out, kind), uint64(len(body))), body...)
	}
	return out, r.Err
}
