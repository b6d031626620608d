package plugin

import (
	"fmt"

	"github.com/daeace23/prober/internal/wasmfile"
)

// SectionName is the custom section of a WebAssembly module that holds its manifest.
const SectionName = "prober.manifest"

// MaxModule is the maximum size of a module, in bytes.
const MaxModule = 32 << 20

// ErrNoManifest is the error for a module without an embedded manifest.
var ErrNoManifest = fmt.Errorf("the module has no manifest inside, in the custom section %q", SectionName)

// Extract returns the manifest inside a module.
func Extract(module []byte) ([]byte, error) {
	sections, err := wasmfile.Sections(module)
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

// Embed returns module with manifest as its custom section [SectionName], which it replaces if
// the module has one. The manifest must be valid.
func Embed(module, manifest []byte) ([]byte, error) {
	if _, err := ParseManifest("plugin.yaml", manifest); err != nil {
		return nil, err
	}
	out, err := wasmfile.WithCustom(module, SectionName, manifest)
	if err != nil {
		return nil, err
	}
	if len(out) > MaxModule {
		return nil, fmt.Errorf("module of %d bytes; at most %d are allowed", len(out), MaxModule)
	}
	return out, nil
}
