package clientcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
)

// action is an operation on probes that a user requests of the agent.
type action struct {
	name, short, long, done string
	do                      func(c *client.Client, ctx context.Context, probe client.Filter) ([]api.ProbeStatus, error)
}

var (
	trigger = action{
		"trigger", "Make probes run an attempt now", "Trigger makes probes run an attempt now, without waiting for their next period.",
		"triggered", (*client.Client).Trigger,
	}
	resume = action{
		"resume", "End a pause of probes", "Resume ends a pause.",
		"resumed", (*client.Client).Resume,
	}
	unforce = action{
		"unforce", "End a forced state of probes", "Unforce ends a forced state, or a pause: the probes run an attempt now.",
		"resumed", (*client.Client).Resume,
	}
)

// newPause returns the command pause.
func newPause(env *command.Env) *cobra.Command {
	var length time.Duration
	var asked api.PauseRequest
	c := newAction(env, action{
		"pause", "Stop the attempts of probes",
		"Pause stops the attempts of probes for the time of --for, or until they are resumed. A paused probe\n" +
			"keeps its result. A probe that is paused already gets the new time and reason. Without\n--state-dir of the agent a pause ends with it.",
		"paused",
		func(c *client.Client, ctx context.Context, probe client.Filter) ([]api.ProbeStatus, error) {
			if length > 0 {
				asked.For = length.String()
			}
			return c.Pause(ctx, probe, asked)
		},
	})
	c.Example += "\n  prober pause shop --for 10m --reason 'the database moves'"
	addPauseFlags(c, "the pause", &length, &asked.Reason)
	return c
}

// addPauseFlags adds the flags of a pause or a forced state.
func addPauseFlags(c *cobra.Command, what string, length *time.Duration, reason *string) {
	c.Flags().DurationVar(length, "for", 0, "end "+what+" after this time, such as 10m; 0 for no end")
	c.Flags().StringVar(reason, "reason", "", "reason for "+what+", shown with the probe")
	c.PreRunE = func(*cobra.Command, []string) error {
		if *length < 0 || *length > 0 && *length < time.Second {
			return command.Usage("", "--for %v: must be at least 1s, or 0", *length)
		}
		return nil
	}
}

// newForce returns the command force.
func newForce(env *command.Env) *cobra.Command {
	var length time.Duration
	var asked api.ForceRequest
	c := newAction(env, action{
		"force", "Give readiness probes a state",
		"Force stops the attempts of readiness probes and gives them a state, for the time of --for, or until\n" +
			"prober unforce: up is a success, and down a failure. A drained probe keeps its state with the result\n" +
			"failure, and endpoints go by their other checks. No receiver gets a message.",
		"forced",
		func(c *client.Client, ctx context.Context, probe client.Filter) ([]api.ProbeStatus, error) {
			if length > 0 {
				asked.For = length.String()
			}
			return c.Force(ctx, probe, asked)
		},
	})
	c.Use, c.Args = "force POD[/CONTAINER] up|down|drained", cobra.ExactArgs(2)
	c.Example = "  prober force shop down --for 2h --reason 'the database moves'\n  prober force shop/web drained"
	run, complete := c.RunE, c.ValidArgsFunction
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if asked.State = args[1]; !slices.Contains(forcedStates, asked.State) {
			return command.Usage("", "%q must be one of %s", asked.State, strings.Join(forcedStates, ", "))
		}
		return run(cmd, []string{args[0], "readiness"})
	}
	c.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return forcedStates, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, word)
	}
	addPauseFlags(c, "the forced state", &length, &asked.Reason)
	return c
}

var forcedStates = []string{"up", "down", "drained"}

func newAction(env *command.Env, a action) *cobra.Command {
	return aboutProbes(env, &cobra.Command{
		Use:   a.name,
		Short: a.short,
		Long: a.long + "\n\n" +
			"Exit code 0, 1 if it failed, 3 if the agent does not respond, 64 wrong usage.",
		Example: fmt.Sprintf("  prober %s shop/web readiness\n  prober %[1]s shop", a.name),
	}, func(ctx context.Context, c *client.Client, s *selection) error { return act(ctx, env, c, a, s) })
}

// act performs the action on all probes of s, and prints a line for each. It continues after an error.
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
		Short: "Make a running agent read its files again",
		Long: "Reload makes an agent read its manifests, prober.yaml, secrets and plugins again, as SIGHUP does, and\n" +
			"waits until they are applied or refused. An agent of a Kubernetes node applies its pods again; the\n" +
			"section kubernetes of prober.yaml is read at its start only.\n\n" +
			"Exit code 0, 1 if any of them was refused, 3 if the agent does not respond, 64 wrong usage.",
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

// newNotify returns the command notify.
func newNotify(env *command.Env) *cobra.Command {
	var agent remote.Flags
	notify := command.Folder("notify", "Test receivers of notifications of a running agent")
	test := &cobra.Command{
		Use:   "test RECEIVER",
		Short: "Send a test message to a receiver, and show its answer",
		Long: "Test makes the agent send a message that is marked as a test to a receiver of prober.yaml, and shows\n" +
			"the answer. If the receiver accepts it, the agent sends the messages again that it refused before.\n\n" +
			"Exit code 0, 1 if the receiver did not accept it, 3 if the agent does not respond, 64 wrong usage.",
		Example:           "  prober notify test ops",
		Args:              command.Arguments("RECEIVER"),
		ValidArgsFunction: complete(env, &agent, find("notifications")),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(cmd, env, &agent, func(ctx context.Context, c *client.Client) error {
				t, err := c.TestNotification(ctx, args[0])
				if err != nil {
					return remote.Failed(err)
				}
				took := time.Duration(t.DurationSeconds * float64(time.Second)).Round(time.Millisecond)
				fmt.Fprintf(env.Stdout, "receiver %s has taken the test message after %s: %s\n", line(t.Receiver), took, line(t.Answer))
				return nil
			})
		},
	}
	agent.Add(notify)
	notify.AddCommand(test)
	return notify
}
