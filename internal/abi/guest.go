package abi

import (
	"fmt"
	"slices"
	"strings"
)

// ModuleWASI is the import module of WASI preview 1, which is no part of the contract.
const ModuleWASI = "wasi_snapshot_preview1"

// Signature is the type of a function.
type Signature struct{ Params, Results []Type }

// Guest is what a module imports and exports.
type Guest struct {
	Imports []Func               // in the order of the module
	Exports map[string]Signature // of functions
	Memory  bool                 // whether a memory is exported as [ExportMemory]
}

// Command reports whether the guest is run as a program: its manifest asks for it, or it has
// no other entry point.
func (g *Guest) Command(asked bool) bool {
	_, probes := g.Exports[ExportProbe]
	_, starts := g.Exports[ExportStart]
	return asked || starts && !probes
}

// Check returns what breaks the contract: an import that this version does not have, an
// export that is missing, or a signature. command is what [Guest.Command] returned.
func (g *Guest) Check(command bool) (errs []error) {
	known := Imports()
	for _, f := range g.Imports {
		if f.Module != ModuleWASI {
			errs = appendError(errs, checkImport(known, f))
		}
	}
	if !g.Memory {
		errs = append(errs, fmt.Errorf("the module exports no %q", ExportMemory))
	}
	if command {
		return appendError(errs, g.checkExport(ExportStart, nil, true))
	}
	verdict := []Type{I32}
	errs = appendError(errs, g.checkExport(ExportProbe, verdict, true))
	errs = appendError(errs, g.checkExport(ExportValidateConfig, verdict, false))
	return appendError(errs, g.checkExport(ExportInitialize, nil, false))
}

func appendError(errs []error, err error) []error {
	if err != nil {
		errs = append(errs, err)
	}
	return errs
}

func checkImport(known []Func, f Func) error {
	at := slices.IndexFunc(known, func(k Func) bool { return k.Module == f.Module && k.Name == f.Name })
	if at < 0 {
		return fmt.Errorf("unknown import %s.%s: this prober does not have it", f.Module, f.Name)
	}
	got, want := Signature{f.Params, f.Results}, Signature{known[at].Params, known[at].Results}
	return differ(fmt.Sprintf("import %s.%s", f.Module, f.Name), got, want)
}

// checkExport holds an exported function, which has no parameters, against its results.
func (g *Guest) checkExport(name string, results []Type, required bool) error {
	got, ok := g.Exports[name]
	switch {
	case ok:
		return differ(fmt.Sprintf("the export %q", name), got, Signature{Results: results})
	case required:
		return fmt.Errorf("the module exports no function %q", name)
	default:
		return nil
	}
}

// differ is the error of a function whose signature is not as the contract has it.
func differ(what string, got, want Signature) error {
	if slices.Equal(got.Params, want.Params) && slices.Equal(got.Results, want.Results) {
		return nil
	}
	return fmt.Errorf("%s has another signature than version %d of the contract: got %s, want %s", what, Version, got, want)
}

// String returns "(i32, i32) -> (i64)".
func (s Signature) String() string {
	return list(s.Params) + " -> " + list(s.Results)
}

func list(types []Type) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = string(t)
	}
	return "(" + strings.Join(names, ", ") + ")"
}
