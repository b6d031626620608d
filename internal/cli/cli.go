// Package cli is prober's command line: [Main] runs one command and returns the exit code. Read cli.go
// first; each other file is one command of prober. plugincmd has the commands below `prober plugin`,
// probecmd the commands below `prober probe`, and program the common parts.
package cli

import (
	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/clientcmd"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/maintenancecmd"
	"github.com/daeace23/prober/internal/cli/plugincmd"
	"github.com/daeace23/prober/internal/cli/probecmd"
	"github.com/daeace23/prober/internal/cli/program"
	"github.com/daeace23/prober/internal/cli/pushcmd"
	"github.com/daeace23/prober/internal/cli/sidecarcmd"
)

// OS returns the Env of this process.
func OS() command.Env { return command.OS(program.Version) }

// Main runs the command in env.Args and returns the exit code.
func Main(env command.Env) int { return program.Main(&env, Root(&env)) }

// Root returns the command prober, with all of its commands.
func Root(env *command.Env) *cobra.Command {
	root := &cobra.Command{
		Use:     "prober",
		Short:   "Probe containers as the kubelet does, with handlers of your own",
		Long:    "Prober runs the kubelet's liveness, readiness and startup probes. Sandboxed plugins add other\nkinds of checks.",
		Example: "  prober run -f pod.yaml --plugins /etc/prober/plugins\n  prober probe http http://127.0.0.1:8080/healthz --explain\n  prober plugin new demo --lang go",
	}
	commands := append(clientcmd.New(env), pushcmd.New(env), maintenancecmd.New(env), newRun(env), newNode(env), probecmd.New(env, plugincmd.NewProbe(env)), newValidate(env), newAgentLoss(env), plugincmd.New(env),
		sidecarcmd.New(env, program.Revision()))
	return program.New(env, root, commands...)
}
