package docstest_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/internal/abi"
)

// flat has the core types of the types in the WIT file, as the component model lowers them.
var flat = map[string][]abi.Type{
	"u32": {abi.I32}, "s32": {abi.I32}, "s64": {abi.I64}, "f64": {abi.F64}, "": nil,
	"string": {abi.I32, abi.I32}, "list<u8>": {abi.I32, abi.I32}, "list<s32>": {abi.I32, abi.I32},
}

var (
	witInterface = regexp.MustCompile(`^interface (\w+) \{`)
	witFunc      = regexp.MustCompile(`^  %?([a-z0-9-]+): func\((.*)\)(?: -> (\w+))?;`)
	witExport    = regexp.MustCompile(`^  export ([a-z-]+): func\(\) -> s32;`)
)

// TestWITMatchesABI compares the functions in sdk/wit/prober.wit, as the component model lowers them, with the
// contract.
func TestWITMatchesABI(t *testing.T) {
	atRoot(t)
	var got []abi.Func
	var exports []string
	module := ""
	for line := range strings.Lines(source(t, "sdk/wit/prober.wit")) {
		if m := witInterface.FindStringSubmatch(line); m != nil {
			if module = abi.ModuleCore; m[1] != "core" {
				module += "_" + m[1]
			}
		}
		if m := witExport.FindStringSubmatch(line); m != nil {
			exports = append(exports, strings.ReplaceAll(m[1], "-", "_"))
		}
		m := witFunc.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		f := abi.Func{Module: module, Name: strings.ReplaceAll(m[1], "-", "_"), Results: flat[m[3]]}
		for param := range strings.SplitSeq(m[2], ", ") {
			_, typ, _ := strings.Cut(param, ": ")
			lowered, ok := flat[typ]
			if !ok {
				t.Errorf("%s: unknown type %q", f.Name, typ)
			}
			f.Params = append(f.Params, lowered...)
		}
		got = append(got, f)
	}
	if diff := cmp.Diff(abi.Imports(), got); diff != "" {
		t.Errorf("(-contract +prober.wit)\n%s", diff)
	}
	if diff := cmp.Diff([]string{abi.ExportProbe, abi.ExportValidateConfig}, exports); diff != "" {
		t.Errorf("exports (-contract +prober.wit)\n%s", diff)
	}
}
