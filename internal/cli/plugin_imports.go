package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/daeace23/prober"
	"github.com/daeace23/prober/plugin"
)

// vetImports says what is wrong with what a module imports.
func vetImports(imports map[string][]string, m *plugin.Manifest) (problems []string) {
	known, err := prober.Imports()
	if err != nil {
		return []string{err.Error()} // it is built in: this can not fail
	}
	for _, name := range slices.Sorted(maps.Keys(imports)) {
		if name == wasiModule {
			continue
		}
		for _, function := range imports[name] {
			if !slices.Contains(known[name], function) {
				problems = append(problems, fmt.Sprintf("imports %s.%s, which this prober does not have", name, function))
			}
		}
	}
	for _, capability := range unasked(imports, m) {
		problems = append(problems, fmt.Sprintf("imports prober_v1_%s, and the manifest does not ask for %q", capability, capability))
	}
	for _, r := range m.Requests {
		if imports[capabilityPrefix+r.Capability] == nil {
			problems = append(problems, fmt.Sprintf("imports nothing of prober_v1_%s, and the manifest asks for %q", r.Capability, r.Capability))
		}
	}
	return problems
}

const (
	capabilityPrefix = "prober_v1_"
	wasiModule       = "wasi_snapshot_preview1"
)

// unasked returns the capabilities that a module imports and its manifest does not ask
// for.
func unasked(imports map[string][]string, m *plugin.Manifest) (missing []string) {
	for _, name := range slices.Sorted(maps.Keys(imports)) {
		capability, ok := strings.CutPrefix(name, capabilityPrefix)
		asks := func(r plugin.Request) bool { return r.Capability == capability }
		if ok && !slices.ContainsFunc(m.Requests, asks) {
			missing = append(missing, capability)
		}
	}
	return missing
}

// importsOf returns the functions that a module imports, by module.
func importsOf(module []byte) (map[string][]string, error) {
	sections, err := plugin.Sections(module)
	if err != nil {
		return nil, err
	}
	imports := make(map[string][]string)
	for _, s := range sections {
		if s.ID != importSection {
			continue
		}
		r := importReader{s.Body}
		for n := r.number(); n > 0 && r.rest != nil; n-- {
			from, name := r.text(), r.text()
			if r.skipType() && !slices.Contains(imports[from], name) {
				imports[from] = append(imports[from], name)
			}
		}
		if r.rest == nil {
			return nil, errors.New("the import section is cut off")
		}
	}
	return imports, nil
}

const importSection = 2

// importReader reads an import section. Its rest is nil once something was missing.
type importReader struct{ rest []byte }

func (r *importReader) number() (n uint64) {
	for i, b := range r.rest {
		n |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			r.rest = r.rest[i+1:]
			return n
		}
		if i == 4 {
			break
		}
	}
	r.rest = nil
	return 0
}

func (r *importReader) text() string {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.rest = nil
		return ""
	}
	text := string(r.rest[:n])
	r.rest = r.rest[n:]
	return text
}

// skipType reads over the type of an import and reports whether it is a function.
func (r *importReader) skipType() bool {
	switch kind := r.number(); kind {
	case 0: // function
		r.number()
		return r.rest != nil
	case 1, 2: // table, memory
		if kind == 1 {
			r.number() // type of its elements
		}
		if r.number()&1 == 1 {
			r.number()
		}
		r.number()
	case 3: // global
		r.number()
		r.number()
	}
	return false
}
