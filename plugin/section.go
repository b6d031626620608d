package plugin

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// SectionName is the custom section of a WebAssembly module that holds its manifest.
const SectionName = "prober.manifest"

// MaxModule is the most bytes that a module may have.
const MaxModule = 32 << 20

// maxSections is the most sections that a module may have: what is kept of each takes
// more than the bytes of a small one.
const maxSections = 10_000

var moduleHeader = []byte("\x00asm\x01\x00\x00\x00")

// Section is one section of a WebAssembly module.
type Section struct {
	ID    byte   // 0 is a custom section
	Name  string // of a custom section
	Start int    // offset of the ID in the module
	Body  []byte // what follows the size and the name; part of the module
}

// End is the offset in the module of what follows s; module is where s came from.
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

// ErrNoManifest means that a module carries no manifest.
var ErrNoManifest = fmt.Errorf("the module has no manifest inside, in the custom section %q", SectionName)

// Extract returns the manifest inside a module, as it was embedded.
func Extract(module []byte) ([]byte, error) {
	sections, err := Sections(module)
	if err != nil {
		return nil, err
	}
	var found []byte
	for _, s := range sections {
		if s.ID != 0 || s.Name != SectionName {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("the module has two custom sections %q", SectionName)
		}
		found = s.Body
	}
	if found == nil {
		return nil, ErrNoManifest
	}
	return found, nil
}

// Embed returns module with manifest as its custom section [SectionName], in the
// place of any that it has. The manifest must be valid.
func Embed(module, manifest []byte) ([]byte, error) {
	if _, err := ParseManifest("plugin.yaml", manifest); err != nil {
		return nil, err
	}
	sections, err := Sections(module)
	if err != nil {
		return nil, err
	}
	out := append([]byte(nil), moduleHeader...)
	for _, s := range sections {
		if s.ID != 0 || s.Name != SectionName {
			out = append(out, module[s.Start:s.end(module)]...)
		}
	}
	body := binary.AppendUvarint(nil, uint64(len(SectionName)))
	body = append(append(body, SectionName...), manifest...)
	out = append(out, 0)
	out = binary.AppendUvarint(out, uint64(len(body)))
	out = append(out, body...)
	if len(out) > MaxModule {
		return nil, fmt.Errorf("module of %d bytes; at most %d are allowed", len(out), MaxModule)
	}
	return out, nil
}
