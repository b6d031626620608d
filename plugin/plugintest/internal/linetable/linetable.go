// Package linetable reads which lines of source files the code of a WebAssembly module is from: its DWARF section
// .debug_line, of the versions 2 to 5. It trusts nothing in the module, unlike debug/dwarf: the work is linear in the
// size of the module, and the memory is bounded.
//
// Start at [Read].
package linetable

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/daeace23/prober/internal/wasmfile"
)

// Limits of a table.
const (
	maxRows  = 2 << 20
	maxFiles = 20_000
	maxPath  = 1 << 10 // bytes
)

// Table has the lines of a module's code.
type Table struct {
	Files []string // paths as the compiler wrote them, relative ones without the folder in which it ran
	Rows  []Row    // ascending by Start
}

// Row is a range of instructions of one line.
type Row struct {
	Start, End uint32 // range in the code section of the module
	File       uint32 // index in [Table.Files]
	Line       uint32 // at least 1
}

var (
	errMalformed = errors.New("malformed")
	errTooMany   = fmt.Errorf("more than %d files, or a path of more than %d bytes", maxFiles, maxPath)
)

// Read returns the table of a module. It is empty if the module has none.
func Read(module []byte) (*Table, error) {
	sections, err := wasmfile.Sections(module)
	if err != nil {
		return nil, err
	}
	r := reading{files: make(map[string]uint32)}
	var units []byte
	for _, s := range sections {
		if s.ID != 0 {
			continue
		}
		switch s.Name {
		case ".debug_line":
			units = s.Body
		case ".debug_line_str":
			r.lineStrings = s.Body
		case ".debug_str":
			r.strings = s.Body
		}
	}
	for all := (data{units}); len(all.rest) > 0; {
		at := len(units) - len(all.rest)
		if err := r.unit(&all); err != nil {
			return nil, fmt.Errorf(".debug_line at byte %d: %w", at, err)
		}
	}
	slices.SortStableFunc(r.table.Rows, func(a, b Row) int { return cmp.Compare(a.Start, b.Start) })
	return &r.table, nil
}

// reading is the state of one [Read].
type reading struct {
	table                Table
	files                map[string]uint32 // indices in table.Files
	lineStrings, strings []byte            // the sections .debug_line_str and .debug_str
}

// unit is the header of the table of one compilation unit.
type unit struct {
	version    uint16
	minimum    uint64 // size of the smallest instruction
	stmt       bool
	lineBase   int64
	lineRange  byte
	opcodeBase byte
	operands   []byte // numbers of the operands of the standard opcodes
	dirs       []string
	names      []file
	indices    map[uint64]uint32 // of the files that rows named so far
}

type file struct {
	name string
	dir  uint64
}

// unit reads the next unit.
func (r *reading) unit(all *data) error {
	size := all.u32()
	if size >= 0xfffffff0 {
		return errors.New("64-bit DWARF is not supported")
	}
	d := data{all.take(uint64(size))}
	u := unit{indices: make(map[uint64]uint32)}
	if u.version = d.u16(); u.version < 2 || u.version > 5 {
		return fmt.Errorf("version %d is not supported", u.version)
	}
	if u.version == 5 {
		d.take(2) // sizes of addresses and segments
	}
	header := data{d.take(uint64(d.u32()))}
	if err := r.header(&header, &u); err != nil {
		return err
	}
	return r.program(&d, &u)
}

func (r *reading) header(d *data, u *unit) error {
	u.minimum = uint64(d.byte())
	if u.version >= 4 {
		d.byte() // operations per instruction
	}
	u.stmt = d.byte() != 0
	u.lineBase = int64(int8(d.byte()))
	u.lineRange = d.byte()
	if u.opcodeBase = d.byte(); u.opcodeBase == 0 || u.lineRange == 0 {
		return errMalformed
	}
	u.operands = d.take(uint64(u.opcodeBase) - 1)
	if u.version == 5 {
		return r.entries(d, u)
	}
	for {
		dir := d.text()
		if dir == "" {
			break
		}
		if u.dirs = append(u.dirs, dir); len(u.dirs) > maxFiles {
			return errTooMany
		}
	}
	for {
		f := file{name: d.text()}
		if f.name == "" {
			return d.end()
		}
		f.dir = d.uleb()
		d.uleb() // time of modification
		d.uleb() // size
		if u.names = append(u.names, f); len(u.names) > maxFiles {
			return errTooMany
		}
	}
}

// entries reads the folders and files of version 5.
func (r *reading) entries(d *data, u *unit) error {
	dirs, err := r.list(d)
	if err != nil {
		return err
	}
	for _, f := range dirs {
		u.dirs = append(u.dirs, f.name)
	}
	u.names, err = r.list(d)
	return err
}

// Numbers of DWARF 5 for the contents of an entry, and for their forms.
const (
	contentPath = 1
	contentDir  = 2

	formData2   = 0x05
	formData4   = 0x06
	formData8   = 0x07
	formString  = 0x08
	formBlock   = 0x09
	formData1   = 0x0b
	formStrp    = 0x0e
	formUdata   = 0x0f
	formData16  = 0x1e
	formLineStr = 0x1f
)

// list reads a list of folders or files of version 5.
func (r *reading) list(d *data) (all []file, err error) {
	formats := make([][2]uint64, d.byte())
	for i := range formats {
		formats[i] = [2]uint64{d.uleb(), d.uleb()}
	}
	n := d.uleb()
	switch {
	case n > 0 && len(formats) == 0:
		return nil, errMalformed
	case n > maxFiles:
		return nil, errTooMany
	}
	for range n {
		var f file
		for _, format := range formats {
			text, number, err := r.value(d, format[1])
			if err != nil {
				return nil, err
			}
			switch format[0] {
			case contentPath:
				f.name = text
			case contentDir:
				f.dir = number
			}
		}
		all = append(all, f)
	}
	return all, d.end()
}

// value reads a value of an entry.
func (r *reading) value(d *data, form uint64) (text string, number uint64, err error) {
	switch form {
	case formString:
		text = d.text()
	case formLineStr:
		text = textAt(r.lineStrings, d.u32())
	case formStrp:
		text = textAt(r.strings, d.u32())
	case formUdata:
		number = d.uleb()
	case formData1:
		number = uint64(d.byte())
	case formData2:
		number = uint64(d.u16())
	case formData4:
		number = uint64(d.u32())
	case formData8:
		d.take(8)
	case formData16:
		d.take(16)
	case formBlock:
		d.take(d.uleb())
	default:
		return "", 0, fmt.Errorf("form %#x is not supported", form)
	}
	return text, number, d.end()
}

// index returns the index in the table of a file that a row of u names.
func (r *reading) index(u *unit, number uint64) (uint32, error) {
	if i, ok := u.indices[number]; ok {
		return i, nil
	}
	at := number
	if u.version < 5 {
		at-- // 0 is no file, and becomes too large
	}
	if at >= uint64(len(u.names)) {
		return 0, errMalformed
	}
	f := u.names[at]
	name := f.name
	dir := f.dir
	if u.version < 5 {
		dir-- // 0 is the folder in which the compiler ran
	}
	if !path.IsAbs(name) && dir < uint64(len(u.dirs)) {
		if name = u.dirs[dir] + "/" + name; u.version == 5 && dir > 0 && !path.IsAbs(name) && path.IsAbs(u.dirs[0]) {
			name = u.dirs[0] + "/" + name
		}
	}
	name = path.Clean(name)
	i, ok := r.files[name]
	if !ok {
		if len(r.files) == maxFiles || len(name) > maxPath {
			return 0, errTooMany
		}
		i = uint32(len(r.table.Files))
		r.table.Files, r.files[name] = append(r.table.Files, name), i
	}
	u.indices[number] = i
	return i, nil
}

// textAt returns the string at an offset in a section.
func textAt(section []byte, offset uint32) string {
	if uint64(offset) >= uint64(len(section)) {
		return ""
	}
	d := data{section[offset:]}
	return d.text()
}

// data reads bytes. After the end it reads zeros.
type data struct{ rest []byte }

// end returns an error if more was read than there is.
func (d *data) end() error {
	if d.rest == nil {
		return errMalformed
	}
	return nil
}

// take returns the next n bytes. If there are fewer, it returns nil and goes beyond the end.
func (d *data) take(n uint64) []byte {
	if n > uint64(len(d.rest)) || d.rest == nil {
		d.rest = nil
		return nil
	}
	taken := d.rest[:n:n]
	d.rest = d.rest[n:]
	return taken
}

func (d *data) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *data) u16() uint16 {
	if b := d.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (d *data) u32() uint32 {
	if b := d.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (d *data) uleb() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.rest = nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *data) sleb() (n int64) {
	for shift := 0; shift < 64; shift += 7 {
		b := d.byte()
		n |= int64(b&0x7f) << shift
		if b&0x80 == 0 {
			if b&0x40 != 0 && shift < 57 {
				n |= -1 << (shift + 7)
			}
			return n
		}
	}
	d.rest = nil
	return 0
}

// text reads a string that ends with a zero byte. It goes beyond the end if the string is too long for a path.
func (d *data) text() string {
	n := bytes.IndexByte(d.rest[:min(len(d.rest), maxPath+1)], 0)
	if n < 0 {
		d.rest = nil
		return ""
	}
	text := string(d.rest[:n])
	d.rest = d.rest[n+1:]
	return text
}
