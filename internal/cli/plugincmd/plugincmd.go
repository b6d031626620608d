// Package plugincmd has the commands below `prober plugin`, and `prober probe plugin`. Each
// command is one file; find.go finds the plugin that a command names, and handler.go loads it.
// Read find.go first.
package plugincmd

import (
	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
)

// New returns the command `prober plugin`.
func New(env *command.Env) *cobra.Command {
	c := command.Folder("plugin", "Make, build, test and inspect plugins", newInspect(env), newList(env),
		newNew(env), newUpdateSDK(env), newBuild(env), newEmbed(env), newVet(env), newCheck(env), newTest(env), newDocs(env),
		newRun(env), newBench(env),
		newKeygen(env), newSign(env), newVerify(env), newLock(env), newPromote(env),
		newSearch(env), newInstall(env), newOutdated(env), newIndex(env),
		newPush(env), newPull(env), newSave(env), newLoad(env))
	c.Long = "A plugin is a sandboxed WebAssembly module that carries out probes. The commands new, build\n" +
		"and test make a tested one. NAME|FILE.wasm|DIR is a plugin in a folder of --plugins, a module,\n" +
		"or the folder of a project with its plugin.yaml."
	return c
}
