package plugincmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
)

const promoteTimeout = time.Minute // preparing all probes can take long

func newPromote(env *command.Env) *cobra.Command {
	var server serverFlags
	c := &cobra.Command{
		Use:     "promote NAME [--server ADDR]",
		Short:   "Let the version that runs beside a plugin take its place",
		Long:    "Promote asks a running agent to go over to the version of a plugin that runs beside it, as its\nprober.yaml says with shadow: true. The agent's next start finds what its files say: put the\nversion in the place of the old one, too.",
		Example: "  prober plugin promote redis\n  prober plugin promote redis --server unix:/run/shop/prober.sock\n  prober plugin promote redis --server 127.0.0.1:19876 --token-file token",
		Args:    command.Arguments("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return promote(cmd.Context(), env, server, args[0])
		},
	}
	c.ValidArgsFunction = cobra.NoFileCompletions
	server.add(c.Flags())
	return c
}

func promote(ctx context.Context, env *command.Env, server serverFlags, name string) error {
	ctx, stop := env.Interruptible(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, promoteTimeout)
	defer cancel()
	client, err := newClient(env, server)
	if err != nil {
		return err
	}
	status, err := client.Promote(ctx, name)
	if err != nil {
		return failed(err)
	}
	fmt.Fprintf(env.Stdout, "plugin %q is version %s now, generation %d, of %d probes\n", status.Name, status.Version, status.Generation, status.Probes)
	return nil
}
