package clientcmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
)

// ask calls f with a client of the agent, and with a context that a signal cancels.
func ask(cmd *cobra.Command, env *command.Env, agent *remote.Flags, f func(ctx context.Context, c *client.Client) error) error {
	c, err := agent.Client(env)
	if err != nil {
		return err
	}
	ctx, stop := env.Interruptible(cmd.Context())
	defer stop()
	return f(ctx, c)
}

// aboutProbes sets up a command that requires names, labels or --all. It calls run with the selected probes.
func aboutProbes(env *command.Env, c *cobra.Command, run func(ctx context.Context, c *client.Client, s *selection) error) *cobra.Command {
	return aboutKind(env, c, "", run)
}

// aboutKind is like [aboutProbes], for probes of one kind, or of the kind that the user selects if kind is "".
func aboutKind(env *command.Env, c *cobra.Command, kind string, run func(ctx context.Context, c *client.Client, s *selection) error) *cobra.Command {
	var agent remote.Flags
	flags := selectionFlags{kind: kind}
	c.Long = strings.Replace(c.Long, "\n\nExit code", "\n\n"+probeNames+"\n\nExit code", 1)
	c.Use += " NAME... [KIND]"
	c.Args = cobra.ArbitraryArgs
	c.ValidArgsFunction = complete(env, &agent, find("probes"))
	c.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := flags.someOf(args)
		if err != nil {
			return err
		}
		return ask(cmd, env, &agent, func(ctx context.Context, c *client.Client) error { return run(ctx, c, s) })
	}
	agent.Add(c)
	flags.addSome(c)
	if kind == "" {
		flags.addKind(c)
	}
	completeNamespaces(c, env, &agent)
	return c
}
