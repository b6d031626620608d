package wasmfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/daeace23/prober/internal/abi"
)

// componentHeader begins a component: the layer of the component model, in its binary version 13.
var componentHeader = []byte("\x00asm\x0d\x00\x01\x00")

// The numbers of sections of a component that [CoreModule] reads.
const (
	coreModuleSection = 1
	componentSection  = 4
)

var errNotAlone = errors.New("a component that contains other components with modules: embed takes the module out of a component that one module was made into")

// IsComponent reports whether data begins as a component of the component model does.
func IsComponent(data []byte) bool { return bytes.HasPrefix(data, componentHeader) }

// CoreModule returns the module that a component was made from, as `wasm-tools component new` does: the only core
// module that exports a memory of its own. The others are adapters, which prober does not need. The result shares
// memory with component.
func CoreModule(component []byte) ([]byte, error) {
	sections, err := sectionsAfter(componentHeader, component)
	if err != nil {
		return nil, err
	}
	var found [][]byte
	for _, s := range sections {
		switch s.ID {
		case componentSection:
			if err := checkNested(s.Body); err != nil {
				return nil, err
			}
		case coreModuleSection:
			main, err := hasMemory(s.Body)
			if err != nil {
				return nil, fmt.Errorf("core module at byte %d: %w", s.Start, err)
			}
			if main {
				found = append(found, s.Body)
			}
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("a component with %d modules that have a memory: want exactly one, and adapters", len(found))
	}
	return found[0], nil
}

// checkNested returns an error for a component within another one, unless it only has types and instances.
func checkNested(component []byte) error {
	sections, err := sectionsAfter(componentHeader, component)
	if err != nil {
		return err
	}
	for _, s := range sections {
		if s.ID == coreModuleSection || s.ID == componentSection {
			return errNotAlone
		}
	}
	return nil
}

// hasMemory reports whether a module exports a memory that it does not import.
func hasMemory(module []byte) (bool, error) {
	r, err := readGuest(module)
	if err != nil {
		return false, err
	}
	return r.guest.Memory && !r.importsMemory, nil
}

// witPackage is the beginning of the import modules that sdk/wit/prober.wit describes.
const witPackage = "prober:plugin/"

// FromWIT returns module with the names of the contract for the imports and exports of sdk/wit/prober.wit. It
// leaves sections that it cannot read as they are. Without changes it returns module itself.
func FromWIT(module []byte) ([]byte, error) {
	sections, err := Sections(module)
	if err != nil {
		return nil, err
	}
	out, changed := slices.Clone(moduleHeader), false
	for _, s := range sections {
		body := s.Body
		switch s.ID {
		case importSection:
			body = renamed(s.Body, importName, func(r *Reader) { r.importType() })
		case exportSection:
			body = renamed(s.Body, exportName, func(r *Reader) { r.Byte(); r.U32() })
		}
		if bytes.Equal(body, s.Body) {
			out = append(out, module[s.Start:s.end(module)]...)
			continue
		}
		changed = true
		out = binary.AppendUvarint(append(out, s.ID), uint64(len(body)))
		out = append(out, body...)
	}
	if !changed {
		return module, nil
	}
	return out, nil
}

// renamed returns the body of a section of imports or exports with other names. name reads the names of an item,
// and returns the new ones. skip reads the rest of an item. A malformed body is returned as it is.
func renamed(body []byte, name func(*Reader) []string, skip func(*Reader)) []byte {
	r := Reader{Data: body}
	n := r.Count()
	out := binary.AppendUvarint(nil, uint64(n))
	for range n {
		for _, text := range name(&r) {
			out = append(binary.AppendUvarint(out, uint64(len(text))), text...)
		}
		rest := r.Data
		skip(&r)
		if r.Err != nil {
			return body
		}
		out = append(out, rest[:len(rest)-len(r.Data)]...)
	}
	return append(out, r.Data...)
}

// importName returns the names of an import in the contract.
func importName(r *Reader) []string {
	from, name := string(r.Bytes()), string(r.Bytes())
	face, ok := strings.CutPrefix(from, witPackage)
	face, version, _ := strings.Cut(face, "@")
	if !ok || version != "" && !strings.HasPrefix(version, "1.") {
		return []string{from, name}
	}
	if from = abi.ModuleCore; face != "core" {
		from += "_" + face
	}
	return []string{from, strings.ReplaceAll(name, "-", "_")}
}

// exportName returns the name of an export in the contract.
func exportName(r *Reader) []string {
	name := string(r.Bytes())
	if name == strings.ReplaceAll(abi.ExportValidateConfig, "_", "-") {
		name = abi.ExportValidateConfig
	}
	return []string{name}
}
