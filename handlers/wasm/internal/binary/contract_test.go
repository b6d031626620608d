package binary_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/handlers/wasm/internal/binary"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/wasmfile"
)

// contract returns the imports and exports of a module as wazero reads them.
func contract(compiled wazero.CompiledModule) *abi.Guest {
	types := func(types []api.ValueType) (names []abi.Type) {
		for _, t := range types {
			names = append(names, abi.Type(api.ValueTypeName(t)))
		}
		return names
	}
	g := &abi.Guest{
		Exports: make(map[string]abi.Signature),
		Memory:  compiled.ExportedMemories()[abi.ExportMemory] != nil,
	}
	for _, def := range compiled.ImportedFunctions() {
		module, name, _ := def.Import()
		g.Imports = append(g.Imports, abi.Func{Module: module, Name: name, Params: types(def.ParamTypes()), Results: types(def.ResultTypes())})
	}
	for name, def := range compiled.ExportedFunctions() {
		g.Exports[name] = abi.Signature{Params: types(def.ParamTypes()), Results: types(def.ResultTypes())}
	}
	return g
}

// FuzzGuestAgainstWazero compares the imports and exports that wasmfile.Guest and wazero read.
func FuzzGuestAgainstWazero(f *testing.F) {
	const header = "\x00asm\x01\x00\x00\x00"
	for _, module := range []string{
		header,
		// A reactor, and a command.
		header + "\x01\x05\x01\x60\x00\x01\x7f" + "\x03\x02\x01\x00" + "\x05\x03\x01\x00\x01" +
			"\x07\x12\x02\x06memory\x02\x00\x05probe\x00\x00" + "\x0a\x06\x01\x04\x00\x41\x00\x0b",
		header + "\x01\x04\x01\x60\x00\x00" + "\x03\x02\x01\x00" + "\x05\x03\x01\x00\x01" +
			"\x07\x13\x02\x06memory\x02\x00\x06_start\x00\x00" + "\x0a\x04\x01\x02\x00\x0b",
		// (f32, i64) -> (i64, f64) as prober_v1.log and as probe; wasi_snapshot_preview1.x.
		header + "\x01\x0b\x02\x60\x02\x7d\x7e\x02\x7e\x7c\x60\x00\x00" +
			"\x02\x2c\x02\x09prober_v1\x03log\x00\x00" + "\x16wasi_snapshot_preview1\x01x\x00\x01" +
			"\x05\x03\x01\x00\x01" + "\x07\x12\x02\x06memory\x02\x00\x05probe\x00\x00",
	} {
		f.Add([]byte(module))
	}
	f.Fuzz(func(t *testing.T, module []byte) {
		if _, err := binary.Inspect(module, 1000); err != nil {
			return // not compiled
		}
		runtime := wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigInterpreter())
		defer runtime.Close(t.Context())
		compiled, err := runtime.CompileModule(t.Context(), module)
		if err != nil {
			return // nothing to compare with
		}
		got, err := wasmfile.Guest(module)
		if diff := cmp.Diff(contract(compiled), got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%v (-want +got)\n%s", err, diff)
		}
	})
}
