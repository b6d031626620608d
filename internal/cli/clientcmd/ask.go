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

// aboutProbes sets up a command whose arguments name probes. It calls run with their selection.
func aboutProbes(env *command.Env, c *cobra.Command, run func(ctx context.Context, c *client.Client, s *selection) error) *cobra.Command {
	var agent remote.Flags
	var namespace string
	c.Long = strings.Replace(c.Long, "\n\nExit code", "\n"+probeNames+"\n\nExit code", 1)
	c.Use += " POD[/CONTAINER] [KIND]"
	c.Args = cobra.RangeArgs(1, 2)
	c.ValidArgsFunction = complete(env, &agent, find("probes"))
	c.RunE = func(cmd *cobra.Command, args []string) error {
		s := selection{Filter: client.Filter{Namespace: namespace}}
		if err := s.probeArgs(args); err != nil {
			return err
		}
		return ask(cmd, env, &agent, func(ctx context.Context, c *client.Client) error { return run(ctx, c, &s) })
	}
	agent.Add(c)
	c.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace (default: all)")
	completeNamespaces(c, env, &agent)
	return c
}
