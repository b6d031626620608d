package plugincmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
)

const promoteTimeout = time.Minute // preparing all probes can take long

func newPromote(env *command.Env) *cobra.Command {
	var agent remote.Flags
	c := &cobra.Command{
		Use:   "promote NAME [--server ADDR]",
		Short: "Replace a plugin by the version that runs in its shadow",
		Long: "Promote asks a running agent to replace a plugin by the version that runs in its shadow, which\n" +
			"has shadow: true in prober.yaml. Also install that version in place of the old one: at its next\n" +
			"start, the agent loads the version in its files.",
		Example:           "  prober plugin promote redis\n  prober plugin promote redis --server unix:/run/shop/prober.sock\n  prober plugin promote redis --server 127.0.0.1:19876 --token-file token",
		Args:              command.Arguments("NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := agent.Client(env)
			if err != nil {
				return err
			}
			return promote(cmd.Context(), env, client, args[0])
		},
	}
	agent.Add(c)
	return c
}

func promote(ctx context.Context, env *command.Env, client *client.Client, name string) error {
	ctx, stop := env.Interruptible(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, promoteTimeout)
	defer cancel()
	status, err := client.Promote(ctx, name)
	if err != nil {
		return remote.Failed(err)
	}
	fmt.Fprintf(env.Stdout, "plugin %q is version %s now, generation %d, of %d probes\n", status.Name, status.Version, status.Generation, status.Probes)
	return nil
}
