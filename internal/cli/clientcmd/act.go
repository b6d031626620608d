package clientcmd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/nodes"
	"github.com/daeace23/prober/internal/cli/remote"
	"github.com/daeace23/prober/internal/nearest"
)

// action is an operation on probes that a user requests of the agent.
type action struct {
	name, short, long, done string
	kind                    string // of the probes; "" for all
	do                      func(c *client.Client, ctx context.Context, probe client.Filter) ([]api.ProbeStatus, error)
}

var (
	trigger = action{
		name: "trigger", short: "Make probes run an attempt now", long: "Trigger makes probes run an attempt now, without waiting for their next period.",
		done: "triggered", do: (*client.Client).Trigger,
	}
	resume = action{
		name: "resume", short: "End a pause of probes", long: "Resume ends a pause.",
		done: "resumed", do: (*client.Client).Resume,
	}
	unforce = action{
		name: "unforce", short: "End a forced state of probes", long: "Unforce ends a forced state, or a pause: the probes run an attempt now.",
		done: "resumed", do: (*client.Client).Resume,
	}
)

// newPause returns the command pause.
func newPause(env *command.Env) *cobra.Command {
	return pauseWith(func(a action) *cobra.Command {
		c := newAction(env, a)
		c.Example += "\n  prober pause shop --for 10m --reason 'the database moves'\n  prober pause --all --for 1h"
		return c
	})
}

// newPauseOnNodes returns the command pause for all nodes.
func newPauseOnNodes(env *command.Env, of *nodes.Flags) *cobra.Command {
	return pauseWith(func(a action) *cobra.Command { return newActionOnNodes(env, of, a) })
}

// pauseWith adds the flags of a pause to the command that newCommand returns for the action.
func pauseWith(newCommand func(action) *cobra.Command) *cobra.Command {
	var length time.Duration
	var asked api.PauseRequest
	c := newCommand(action{
		name: "pause", short: "Stop the attempts of probes",
		long: "Pause stops the attempts of probes for the time of --for, or until they are resumed. A paused probe\n" +
			"keeps its result. A probe that is paused already gets the new time and reason. Without\n--state-dir of the agent a pause ends with it.",
		done: "paused",
		do: func(c *client.Client, ctx context.Context, probe client.Filter) ([]api.ProbeStatus, error) {
			p := asked // agents are asked at the same time
			if length > 0 {
				p.For = length.String()
			}
			return c.Pause(ctx, probe, p)
		},
	})
	addPauseFlags(c, "the pause", &length, &asked.Reason)
	return c
}

// addPauseFlags adds the flags of a pause or a forced state.
func addPauseFlags(c *cobra.Command, what string, length *time.Duration, reason *string) {
	c.Flags().DurationVar(length, "for", 0, "end "+what+" after this time, such as 10m; 0 for no end")
	c.Flags().StringVar(reason, "reason", "", "reason for "+what+", shown with the probe")
	c.PreRunE = func(cmd *cobra.Command, args []string) error {
		if *length < 0 || *length > 0 && *length < time.Second {
			return command.Usage(command.Line(cmd, args, "for", "10m"), "--for %v: must be at least 1s, or 0", *length)
		}
		return noDuration(cmd, args, what)
	}
}

// noDuration returns an error if a duration is among args.
func noDuration(cmd *cobra.Command, args []string, what string) error {
	for i, a := range args {
		d, ok := durationOf(a)
		if !ok || i == 0 && d != a { // a number may be a name
			continue
		}
		names := slices.Delete(slices.Clone(args), i, i+1)
		if i == 0 {
			names = append([]string{"shop/web"}, names...)
		}
		return command.Usage(command.Line(cmd, names, "for", d), "%q: --for sets the length of %s", a, what)
	}
	return nil
}

// durationOf returns the duration that a user may mean by a word, such as 10m and 10.
func durationOf(word string) (string, bool) {
	if _, err := strconv.ParseUint(word, 10, 16); err == nil {
		return word + "m", true
	}
	d, err := time.ParseDuration(word)
	return word, err == nil && d > 0
}

// newForce returns the command force.
func newForce(env *command.Env) *cobra.Command {
	var length time.Duration
	var asked api.ForceRequest
	c := newAction(env, action{
		name: "force", kind: "readiness", short: "Give readiness probes a state",
		long: "Force stops the attempts of readiness probes and gives them a state, for the time of --for, or until\n" +
			"prober unforce: up is a success, and down a failure. A drained probe keeps its state with the result\n" +
			"failure, and endpoints go by their other checks. No receiver gets a message.",
		done: "forced",
		do: func(c *client.Client, ctx context.Context, probe client.Filter) ([]api.ProbeStatus, error) {
			if length > 0 {
				asked.For = length.String()
			}
			return c.Force(ctx, probe, asked)
		},
	})
	c.Use = "force NAME... up|down|drained"
	c.Example = "  prober force shop down --for 2h --reason 'the database moves'\n  prober force shop/web drained\n  prober force -l app=shop drained --dry-run"
	run, complete := c.RunE, c.ValidArgsFunction
	c.Args = func(cmd *cobra.Command, args []string) error {
		if err := noDuration(cmd, args, "the forced state"); err != nil {
			return err
		}
		if len(args) == 0 || !slices.Contains(forcedStates, args[len(args)-1]) {
			return command.Usage(command.Line(cmd, withState(args)), "%q must be one of %s, after the names", strings.Join(args[max(len(args)-1, 0):], ""), strings.Join(forcedStates, ", "))
		}
		return nil
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		asked.State = args[len(args)-1]
		return run(cmd, args[:len(args)-1])
	}
	c.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		names, directive := complete(cmd, args, word)
		if len(args) > 0 {
			names = append(names, forcedStates...)
		}
		return names, directive
	}
	addPauseFlags(c, "the forced state", &length, &asked.Reason)
	return c
}

// withState returns the arguments that a user may mean who gives no forced state at the end.
func withState(args []string) []string {
	state, names := "down", slices.Clone(args)
	for i, a := range args {
		if s := nearest.Name(a, forcedStates); s != "" {
			state, names = s, slices.Delete(slices.Clone(args), i, i+1)
		}
	}
	if len(names) == 0 {
		names = []string{"shop/web"}
	}
	return append(names, state)
}

var forcedStates = []string{"up", "down", "drained"}

func newAction(env *command.Env, a action) *cobra.Command {
	dryRun := false
	c := aboutKind(env, &cobra.Command{
		Use:   a.name,
		Short: a.short,
		Long: a.long + "\n\n" +
			"It prints a line for each probe, and goes on after an error.\n\n" +
			"Exit code 0, 1 if it failed for a probe or a name, 3 if the agent does not respond,\n64 wrong usage.",
		Example: fmt.Sprintf("  prober %s shop/web readiness\n  prober %[1]s shop cart 'web-*'\n  prober %[1]s -n prod -l app=shop,tier!=cache --dry-run", a.name),
	}, a.kind, func(ctx context.Context, c *client.Client, s *selection) error { return act(ctx, env, c, a, s, dryRun) })
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only print the selected probes")
	return c
}

// act performs the action on all probes of s, and prints a line for each. It continues after an error.
func act(ctx context.Context, env *command.Env, c *client.Client, a action, s *selection, dryRun bool) error {
	probes, failed, err := someProbes(ctx, c, s)
	if err != nil {
		return err
	}
	done := 0
	suffix := ""
	if dryRun {
		suffix = " (dry run)"
	}
	for i := range probes {
		if !dryRun {
			if _, err := a.do(c, ctx, filterFor(&probes[i])); err != nil {
				failed.errs = append(failed.errs, err)
				continue
			}
		}
		done++
		fmt.Fprintf(env.Stdout, "%s %s%s\n", line(nameOf(&probes[i])), a.done, suffix)
	}
	switch {
	case done < len(probes):
		fmt.Fprintf(env.Stderr, "%d of %s %s%s\n", done, command.Count(len(probes), "probe"), a.done, suffix)
	case done > 1:
		fmt.Fprintf(env.Stderr, "%s %s%s\n", command.Count(done, "probe"), a.done, suffix)
	}
	return failed.exit()
}

// nameOf returns the name of a probe for people.
func nameOf(p *api.ProbeStatus) string {
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
