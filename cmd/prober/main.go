// Prober probes containers as the kubelet does, with handlers of your own.
package main

import (
	"os"
	_ "time/tzdata" // the schedules of pushes: images have no time zones

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/internal/cli"
	"github.com/daeace23/prober/internal/descriptors"
)

func main() {
	descriptors.CloseOnExec()
	if wasm.IsCompiler(os.Args) {
		os.Exit(wasm.CompilerMain())
	}
	os.Exit(cli.Main(cli.OS()))
}
