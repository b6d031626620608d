package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/pods/local"
)

// TestMain lets the test binary be prober, the shim of containers, the compiler of modules,
// and what runs in containers.
func TestMain(m *testing.M) {
	if local.IsShim(os.Args) {
		os.Exit(local.ShimMain())
	}
	if wasm.IsCompiler(os.Args) {
		os.Exit(wasm.CompilerMain())
	}
	if len(os.Args) > 2 && os.Args[1] == appArgument {
		os.Exit(appMain(os.Args[2:]))
	}
	testscript.Main(m, map[string]func(){"prober": main})
}
