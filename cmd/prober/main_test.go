package main

import (
	"flag"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/daeace23/prober/handlers/wasm"
)

// TestMain runs the tests. As a child process, the test binary is prober, the shim of
// containers, the compiler of modules, or an app that runs in a container.
func TestMain(m *testing.M) {
	if wasm.IsCompiler(os.Args) {
		os.Exit(wasm.CompilerMain())
	}
	if len(os.Args) > 2 && os.Args[1] == appArgument {
		os.Exit(appMain(os.Args[2:]))
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // most tests wait for processes and periods
	testscript.Main(m, map[string]func(){"prober": main, "kubectl-prober": main})
}
