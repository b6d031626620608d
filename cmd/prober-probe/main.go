// Prober-probe carries out one probe with a built-in handler, as `prober probe` does. It is a separate
// program without plugins and agent, so that it starts quickly in scripts and exec probes.
package main

import (
	"os"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/probecmd"
	"github.com/daeace23/prober/internal/cli/program"
	"github.com/daeace23/prober/internal/descriptors"
)

func main() {
	descriptors.CloseOnExec()
	env := command.OS(program.Version)
	os.Exit(program.Main(&env, probecmd.Program(&env)))
}
