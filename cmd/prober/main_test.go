package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/daeace23/prober/pods/local"
)

// TestMain lets the test binary be prober, the shim of containers, and what runs in them.
func TestMain(m *testing.M) {
	if local.IsShim(os.Args) {
		os.Exit(local.ShimMain())
	}
	if len(os.Args) > 2 && os.Args[1] == appArgument {
		os.Exit(appMain(os.Args[2:]))
	}
	testscript.Main(m, map[string]func(){"prober": main})
}
