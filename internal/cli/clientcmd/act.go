package clientcmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
)

// action is something that a user has the agent do with probes.
type action struct {
	name, short, long, done string
	do                      func(c *client.Client, ctx context.Context, probe client.Filter) ([]api.ProbeStatus, error)
}

var (
	trigger = action{
		"trigger", "Have probes make an attempt now", "Trigger has probes make an attempt now, and not at their next period.",
		"triggered", (*client.Client).Trigger,
	}
	pause = action{
		"pause", "Stop the attempts of probes", "Pause stops the attempts of probes until they are resumed, or the agent starts again. A paused probe\nkeeps its result.",
		"paused", (*client.Client).Pause,
	}
	resume = action{
		"resume", "End a pause of probes", "Resume ends a pause.",
		"resumed", (*client.Client).Resume,
	}
)

func newAction(env *command.Env, a action) *cobra.Command {
	return aboutProbes(env, &cobra.Command{
		Use:   a.name,
		Short: a.short,
		Long: a.long + "\nWithout a container or a kind these are all probes of the pod or the container.\n\n" +
			"Exit code 0, 1 if it failed, 3 if the agent does not respond, 64 wrong usage.",
		Example: fmt.Sprintf("  prober %s shop/web readiness\n  prober %[1]s shop", a.name),
	}, func(ctx context.Context, c *client.Client, s *selection) error { return act(ctx, env, c, a, s) })
}

// act has the agent act on all probes of s, and says so for each. One that fails stops no other.
func act(ctx context.Context, env *command.Env, c *client.Client, a action, s *selection) error {
	probes, err := someProbes(ctx, c, s)
	if err != nil {
		return err
	}
	var errs []error
	for i := range probes {
		p := &probes[i]
		if _, err := a.do(c, ctx, client.Filter{Namespace: p.Namespace, Pod: p.Pod, Container: p.Container, Kind: p.Kind}); err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(env.Stdout, "%s %s\n", line(probeName(p)), a.done)
	}
	return remote.Failed(errors.Join(errs...))
}

// probeName returns the name of a probe for people.
func probeName(p *api.ProbeStatus) string {
	return fmt.Sprintf("%s/%s/%s %s", p.Namespace, p.Pod, p.Container, p.Kind)
}

func newReload(env *command.Env) *cobra.Command {
	var agent remote.Flags
	c := &cobra.Command{
		Use:   "reload",
		Short: "Have a running agent read its files again",
		Long: "Reload has an agent read its manifests, prober.yaml, secrets and plugins again, as SIGHUP does, and\n" +
			"waits until they are applied or refused.\n\n" +
			"Exit code 0, 1 if they were refused, 3 if the agent does not respond, 64 wrong usage.",
		Example:           "  prober reload",
		Args:              command.Arguments(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask(cmd, env, &agent, func(ctx context.Context, c *client.Client) error {
				if err := c.Reload(ctx); err != nil {
					return remote.Failed(err)
				}
				fmt.Fprintln(env.Stdout, "reloaded")
				return nil
			})
		},
	}
	agent.Add(c)
	return c
}
