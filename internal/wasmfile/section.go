// Package wasmfile reads WebAssembly modules as files: their sections, imports and exports. It neither compiles
// nor runs them, and reads no code.
//
// Start at [Sections]. [Guest] reads the parts that the contract with guests covers, and [Reader] reads the
// contents of sections.
package wasmfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// maxSections is the maximum number of sections of a module. It limits memory, since a [Section] is larger
// than a small section in the file.
const maxSections = 10_000

var moduleHeader = []byte("\x00asm\x01\x00\x00\x00")

// Section is one section of a WebAssembly module.
type Section struct {
	ID    byte   // 0 is a custom section
	Name  string // name of a custom section
	Start int    // offset of the ID in the module
	Body  []byte // contents after the size and the name; shares memory with the module
}

// end returns the offset of the end of s in module, the module that s is from.
func (s Section) end(module []byte) int {
	return len(module) - cap(s.Body) + len(s.Body)
}

// Sections splits a module into its sections. It does not read their bodies.
func Sections(module []byte) ([]Section, error) {
	return sectionsAfter(moduleHeader, module)
}

// sectionsAfter splits a module or a component, which begins with header, into its sections.
func sectionsAfter(header, module []byte) ([]Section, error) {
	if !bytes.HasPrefix(module, header) {
		return nil, notModule(module)
	}
	var sections []Section
	module = module[:len(module):len(module)]
	for pos := len(header); pos < len(module); {
		if len(sections) == maxSections {
			return nil, fmt.Errorf("more than %d sections", maxSections)
		}
		s := Section{ID: module[pos], Start: pos}
		r := Reader{Data: module[pos+1:]}
		if s.Body = r.Bytes(); r.Err != nil {
			return nil, fmt.Errorf("section %d at byte %d: truncated or malformed length", s.ID, pos)
		}
		pos = len(module) - len(r.Data)
		if s.ID == 0 {
			body := Reader{Data: s.Body}
			s.Name = string(body.Bytes())
			if s.Body = body.Data; body.Err != nil {
				return nil, fmt.Errorf("custom section at byte %d: name: truncated or malformed length", s.Start)
			}
		}
		sections = append(sections, s)
	}
	return sections, nil
}

// notModule returns the error for a file that is no module.
func notModule(file []byte) error {
	const text = "not a WebAssembly module of version 1"
	begin := bytes.TrimLeft(file[:min(len(file), 256)], " \t\r\n")
	switch {
	case len(file) >= len(moduleHeader) && bytes.HasPrefix(file, moduleHeader[:4]) && file[6] == 1 && file[7] == 0: // the layer
		return errors.New(text + ", but a component (WASI 0.2 or later): take the module out of it with `prober plugin embed`, or build one for WASI 0.1, " +
			"such as with rustc --target wasm32-wasip1, clang --target=wasm32-wasip1, tinygo -target=wasip1 or GOOS=wasip1 go build")
	case bytes.HasPrefix(begin, []byte("(module")), bytes.HasPrefix(begin, []byte(";;")), bytes.HasPrefix(begin, []byte("(;")):
		return errors.New(text + ", but its text format: assemble it with wat2wasm")
	default:
		return errors.New(text)
	}
}

// WithCustom returns module with one custom section called name, which replaces all existing sections of that
// name.
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
