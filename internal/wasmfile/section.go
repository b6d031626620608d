// Package wasmfile reads WebAssembly modules as files: their sections, and what they import and
// export. It neither compiles nor runs them, and reads no code.
//
// Start at [Sections]. [Guest] reads what the contract with guests is about.
package wasmfile

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// maxSections is the most sections that a module may have: a Section takes more memory than a
// small section has bytes.
const maxSections = 10_000

var moduleHeader = []byte("\x00asm\x01\x00\x00\x00")

// Section is one section of a WebAssembly module.
type Section struct {
	ID    byte   // 0 is a custom section
	Name  string // of a custom section
	Start int    // offset of the ID in the module
	Body  []byte // what follows the size and the name; part of the module
}

// end returns the offset in module, where s comes from, of what follows s.
func (s Section) end(module []byte) int {
	return len(module) - cap(s.Body) + len(s.Body)
}

// Sections splits a module into its sections. It looks inside none of them.
func Sections(module []byte) ([]Section, error) {
	if len(module) < len(moduleHeader) || string(module[:len(moduleHeader)]) != string(moduleHeader) {
		return nil, errors.New("not a WebAssembly module of version 1")
	}
	var sections []Section
	module = module[:len(module):len(module)]
	for pos := len(moduleHeader); pos < len(module); {
		if len(sections) == maxSections {
			return nil, fmt.Errorf("more than %d sections", maxSections)
		}
		s := Section{ID: module[pos], Start: pos}
		size, body, err := prefix(module[pos+1:])
		if err != nil {
			return nil, fmt.Errorf("section %d at byte %d: %w", s.ID, pos, err)
		}
		s.Body = body[:size]
		pos = len(module) - len(body) + size
		if s.ID == 0 {
			n, rest, err := prefix(s.Body)
			if err != nil {
				return nil, fmt.Errorf("custom section at byte %d: name: %w", s.Start, err)
			}
			s.Name, s.Body = string(rest[:n]), rest[n:]
		}
		sections = append(sections, s)
	}
	return sections, nil
}

// prefix reads a length in LEB128 that something at least as long must follow.
func prefix(data []byte) (n int, rest []byte, err error) {
	size, used := binary.Uvarint(data[:min(len(data), 5)])
	if used <= 0 {
		return 0, nil, errors.New("truncated or malformed length")
	}
	if rest = data[used:]; size > uint64(len(rest)) {
		return 0, nil, fmt.Errorf("truncated: %d of %d bytes", len(rest), size)
	}
	return int(size), rest, nil
}

// WithCustom returns module with one custom section called name, with body in it, in the place
// of all that it has of that name.
func WithCustom(module []byte, name string, body []byte) ([]byte, error) {
	sections, err := Sections(module)
	if err != nil {
		return nil, err
	}
	out := append([]byte(nil), moduleHeader...)
	for _, s := range sections {
		if s.ID != 0 || s.Name != name {
			out = append(out, module[s.Start:s.end(module)]...)
		}
	}
	content := binary.AppendUvarint(nil, uint64(len(name)))
	content = append(append(content, name...), body...)
	out = append(out, 0)
	out = binary.AppendUvarint(out, uint64(len(content)))
	return append(out, content...), nil
}
