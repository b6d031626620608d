package cli

import "github.com/spf13/cobra"

func newPlugin(env *Env) *cobra.Command {
	c := folder("plugin", "Make, build, test and look at plugins", newPluginInspect(env), newPluginList(env),
		newPluginNew(env), newPluginBuild(env), newPluginEmbed(env), newPluginVet(env), newPluginTest(env), newPluginRun(env), newPluginBench(env),
		newPluginKeygen(env), newPluginSign(env), newPluginVerify(env), newPluginLock(env), newPluginPromote(env),
		newPluginPush(env), newPluginPull(env), newPluginSave(env), newPluginLoad(env))
	c.Long = "A plugin is a sandboxed WebAssembly module that says what a probe does. From nothing to one\n" +
		"that is tested: new, build, test. Where a command takes NAME|FILE.wasm|DIR, NAME is looked\n" +
		"for in the folders of --plugins, and DIR is the folder of a project, with its plugin.yaml."
	return c
}
