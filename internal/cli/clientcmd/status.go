package clientcmd

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
)

func newStatus(env *command.Env) *cobra.Command {
	var agent remote.Flags
	var flags selectionFlags
	c := &cobra.Command{
		Use:   "status",
		Short: "Say in one line whether all is well",
		Long: "Status counts the probes of a running agent by their decided results, and names the first that\n" +
			"fails.\n\n" +
			"Exit code 0 if all is well, 1 if a probe or a plugin fails, 3 if the agent does not respond, 64 wrong\nusage.",
		Example:           "  prober status\n  prober status -n shop || page-someone",
		Args:              command.Arguments(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := flags.of(find("pods"), nil)
			if err != nil {
				return err
			}
			return ask(cmd, env, &agent, func(ctx context.Context, c *client.Client) error { return status(ctx, env, c, s) })
		},
	}
	agent.Add(c)
	flags.add(c, find("pods"))
	return c
}

// status writes one line.
func status(ctx context.Context, env *command.Env, c *client.Client, s *selection) error {
	probes, err := s.probes(ctx, c)
	if err != nil {
		return remote.Failed(err)
	}
	plugins, err := c.Plugins(ctx)
	if err != nil {
		return remote.Failed(err)
	}
	counts := make(map[string]int)
	paused := 0
	var failing *api.ProbeStatus
	for i := range probes {
		p := &probes[i]
		counts[p.Result]++
		if p.Paused {
			paused++
		}
		if p.Result == "failure" && failing == nil {
			failing = p
		}
	}
	parts := []string{fmt.Sprintf("%s: %d success", command.Count(len(probes), "probe"), counts["success"])}
	for _, of := range []struct {
		n    int
		name string
	}{{counts["failure"], "failure"}, {counts["unknown"], "unknown"}, {paused, "paused"}} {
		if of.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", of.n, of.name))
		}
	}
	var text strings.Builder
	text.WriteString(strings.Join(parts, ", "))
	if failing != nil {
		text.WriteString("; " + line(probeName(failing)) + " fails")
		if last := failing.Last; last != nil {
			text.WriteString(": " + line(cmp.Or(last.Error, last.Output)))
		}
	}
	broken := 0
	for i := range plugins {
		if p := &plugins[i]; p.State == "failed" || p.State == "withdrawn" {
			if broken++; broken == 1 {
				text.WriteString(fmt.Sprintf("; plugin %s is %s", line(p.Name), p.State))
			}
		}
	}
	fmt.Fprintln(env.Stdout, text.String())
	if failing != nil || broken > 0 {
		return &command.Exit{Code: command.ExitFailed}
	}
	return nil
}
