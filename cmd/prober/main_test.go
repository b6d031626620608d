package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/daeace23/prober/pods/local"
)

// TestMain lets the test binary be prober, for scripts, and the shim of containers.
func TestMain(m *testing.M) {
	if local.IsShim(os.Args) {
		os.Exit(local.ShimMain())
	}
	testscript.Main(m, map[string]func(){"prober": main})
}
