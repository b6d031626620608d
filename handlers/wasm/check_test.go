package wasm_test

import (
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin"
)

func TestCheckRunsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		functions, static, load string // static and load are the errors of Check and Load
	}{
		"nothing runs":         {`(func (export "probe") (result i32) i32.const 0)`, "", ""},
		"start traps":          {`(func (export "probe") (result i32) i32.const 0) (func $s unreachable) (start $s)`, "", "unreachable"},
		"_initialize traps":    {`(func (export "probe") (result i32) i32.const 0) (func (export "_initialize") unreachable)`, "", "_initialize: "},
		"code does not verify": {`(func (export "probe") (result i32) i64.const 0)`, "compile: ", "compile: "},
		"import of WASI": {`(import "wasi_snapshot_preview1" "frobs" (func $f)) (func (export "probe") (result i32) i32.const 0)`,
			"frobs", "frobs"},
		"data beyond the memory": {`(func (export "probe") (result i32) i32.const 0) (data (i32.const 65536) "x")`, "data", "data"},
	} {
		t.Run(name, func(t *testing.T) {
			imports, functions, found := strings.Cut(c.functions, "(func (export")
			if !found {
				t.Fatal("no export")
			}
			f := plugin.Found{Module: assemble(t, "(module "+imports+`(memory (export "memory") 1) (func (export`+functions+")"), Manifest: plugin.Minimal("guest")}
			if err := host.Check(t.Context(), f); !matches(err, c.static) {
				t.Errorf("Check: %v, want %q", err, c.static)
			}
			h, err := host.Load(t.Context(), f)
			if !matches(err, c.load) {
				t.Errorf("Load: %v, want %q", err, c.load)
			}
			if err == nil {
				_ = h.Close()
			}
		})
	}
}

// matches reports whether the message of err contains text. If text is "", err must be nil.
func matches(err error, text string) bool {
	if err == nil || text == "" {
		return err == nil && text == ""
	}
	return strings.Contains(err.Error(), text)
}
