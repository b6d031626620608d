package wasmfile_test

import (
	"encoding/binary"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/internal/wasmfile"
)

const componentHeader = "\x00asm\x0d\x00\x01\x00"

// section returns one section.
func section(id byte, body string) string {
	return string(binary.AppendUvarint([]byte{id}, uint64(len(body)))) + body
}

// withMemory is a module that exports a memory.
const withMemory = header + "\x05\x03\x01\x00\x01" + "\x07\x0a\x01\x06memory\x02\x00"

// withImported is a module that exports the memory that it imports.
const withImported = header + "\x02\x08\x01\x01e\x01m\x02\x00\x01" + "\x07\x0a\x01\x06memory\x02\x00"

// TestCoreModule takes the module out of a component that wasm-tools made.
func TestCoreModule(t *testing.T) {
	component, err := os.ReadFile("testdata/component.wasm")
	if err != nil {
		t.Fatal(err)
	}
	module, err := wasmfile.CoreModule(component)
	if err != nil {
		t.Fatal(err)
	}
	if module, err = wasmfile.FromWIT(module); err != nil {
		t.Fatal(err)
	}
	imports, err := wasmfile.Imports(module)
	want := map[string][]string{
		"prober_v1": {"message", "log_enabled"}, "prober_v1_net": {"dial"}, "wasi_snapshot_preview1": {"random_get"},
	}
	if diff := cmp.Diff(want, imports); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	guest, err := wasmfile.Guest(module)
	if err != nil {
		t.Fatal(err)
	}
	if errs := guest.Check(false); errs != nil {
		t.Errorf("the module violates the contract: %v", errs)
	}
	got := slices.Sorted(maps.Keys(guest.Exports))
	if diff := cmp.Diff([]string{"cabi_realloc", "probe", "validate_config"}, got); diff != "" {
		t.Errorf("exports (-want +got)\n%s", diff)
	}
}

func TestCoreModuleErrors(t *testing.T) {
	memory, imported := section(1, withMemory), section(1, withImported)
	types := section(4, componentHeader+section(7, "\x00"))
	for component, want := range map[string]string{
		componentHeader + memory:                                "",
		componentHeader + types + imported + memory + types:     "",
		componentHeader:                                         "0 modules that have a memory",
		componentHeader + imported:                              "0 modules that have a memory",
		componentHeader + memory + memory:                       "2 modules that have a memory",
		componentHeader + section(4, componentHeader+memory):    "contains other components",
		componentHeader + section(4, componentHeader+types):     "contains other components",
		componentHeader + section(4, header):                    "not a WebAssembly module",
		componentHeader + section(1, "\x00asm"):                 "core module at byte 8: not a WebAssembly module",
		componentHeader + section(1, componentHeader):           "core module at byte 8: not a WebAssembly module of version 1, but a component ",
		componentHeader + "\x01\x09":                            "truncated",
		componentHeader + section(1, withMemory+"\x02\x01\x05"): "core module at byte 8: section 2",
		componentHeader + strings.Repeat("\x07\x00", 10_001):    "more than 10000 sections",
		withMemory: "not a WebAssembly module",
	} {
		module, err := wasmfile.CoreModule([]byte(component))
		switch {
		case want == "" && (err != nil || string(module) != withMemory):
			t.Errorf("%.60q: got %q, %v, want the module", component, module, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%.60q: got %v, want %q", component, err, want)
		}
	}
}

func TestFromWIT(t *testing.T) {
	named := func(text string) string { return string(rune(len(text))) + text }
	imports := func(module, name string) string {
		return header + section(2, "\x02"+named(module)+named(name)+"\x00\x00"+named("env")+named("a-b")+"\x02\x01\x01\x02")
	}
	for module, want := range map[string]string{
		imports("prober:plugin/core@1.0.0", "request-read"):             imports("prober_v1", "request_read"),
		imports("prober:plugin/http@1.4.2", "do"):                       imports("prober_v1_http", "do"),
		imports("prober:plugin/kv", "get"):                              imports("prober_v1_kv", "get"),
		imports("prober:plugin/kv@2.0.0", "get"):                        imports("prober:plugin/kv@2.0.0", "get"),
		imports("wasi:cli/run@0.2.0", "run"):                            imports("wasi:cli/run@0.2.0", "run"),
		withMemory:                                                      withMemory,
		header + section(2, "\x01"+named("prober:plugin/kv")):           header + section(2, "\x01"+named("prober:plugin/kv")), // malformed
		header + section(7, "\x01"+named("validate-config")+"\x00\x03"): header + section(7, "\x01"+named("validate_config")+"\x00\x03"),
	} {
		if got, err := wasmfile.FromWIT([]byte(module)); err != nil || string(got) != want {
			t.Errorf("%q: got %q, %v, want %q", module, got, err, want)
		}
	}
	for _, module := range []string{"", componentHeader, header + "\x02\x09"} {
		if got, err := wasmfile.FromWIT([]byte(module)); err == nil {
			t.Errorf("%q: got %q, want an error", module, got)
		}
	}
}

func FuzzCoreModule(f *testing.F) {
	component, err := os.ReadFile("testdata/component.wasm")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(component)
	f.Add([]byte(componentHeader + section(1, withMemory)))
	f.Fuzz(func(t *testing.T, data []byte) {
		module, err := wasmfile.CoreModule(data)
		if err != nil {
			return
		}
		if renamed, err := wasmfile.FromWIT(module); err == nil {
			if _, err := wasmfile.Sections(renamed); err != nil {
				t.Errorf("%q becomes %q: %v", module, renamed, err)
			}
		}
	})
}
