package clientcmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
)

func newStatus(env *command.Env) *cobra.Command {
	var agent remote.Flags
	var flags selectionFlags
	c := &cobra.Command{
		Use:   "status [NAME]... [KIND]",
		Short: "Show in one line whether everything is healthy",
		Long: "Status counts the probes of a running agent by their states, and names the first that\n" +
			"fails. A paused probe counts as paused only, and one in a maintenance window as\n" +
			"maintenance only. It also counts containers that do not stay up, plugins that do not\n" +
			"run, and the problems of the agent in /readyz: a refused file, a source of targets that\n" +
			"cannot be refreshed, or a problem of its host. Plugins and problems of the agent are\n" +
			"included with names, -n and -l, too.\n\n" + probeNames + "\n\n" +
			"Exit code 0 if nothing fails, 1 if something fails or a name is not found, 3 if the agent\ndoes not respond, 64 wrong usage.",
		Example:           "  prober status\n  prober status -n shop || page-someone\n  prober status 'shop-*' -l tier=web",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: complete(env, &agent, find("probes")),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := flags.selectionOf(find("probes"), args)
			if err != nil {
				return err
			}
			return ask(cmd, env, &agent, func(ctx context.Context, c *client.Client) error { return status(ctx, env, c, s) })
		},
	}
	agent.Add(c)
	flags.addPods(c)
	completeNamespaces(c, env, &agent)
	return c
}

// status writes one line.
func status(ctx context.Context, env *command.Env, c *client.Client, s *selection) error {
	probes, err := s.probes(ctx, c)
	if err != nil {
		return remote.Failed(err)
	}
	pods, err := s.pods(ctx, c)
	if err != nil {
		return remote.Failed(err)
	}
	s.findPods(pods)
	if err := s.missing(ctx, c).exit(); err != nil {
		return err
	}
	plugins, err := c.Plugins(ctx)
	if err != nil {
		return remote.Failed(err)
	}
	checks, err := c.Checks(ctx)
	if err != nil {
		return remote.Failed(err)
	}
	counts := make(api.Counts)
	var failing *api.ProbeStatus
	for i := range probes {
		p := &probes[i]
		counts[p.Counted()]++
		fails := p.Counted() == "failure"
		blind := p.Counted() == "unknown" && p.Result == "failure" && !p.StateSince.IsZero() // it failed, and has no verdict now
		if failing == nil && (fails || blind) || fails && failing.Counted() != "failure" {   // a blind one may depend on it
			failing = p
		}
	}
	var text strings.Builder
	text.WriteString(counts.String())
	if failing != nil {
		text.WriteString("; " + failureOf(failing))
	}
	if incidents := incidentsText(ctx, c, s); failing != nil && incidents != "" {
		text.WriteString("; " + incidents)
	}
	troubles := append(containersDown(pods), troublesOf(plugins, checks)...)
	for _, t := range troubles[:min(len(troubles), maxTroubles)] {
		text.WriteString("; " + t)
	}
	if more := len(troubles) - maxTroubles; more > 0 {
		text.WriteString(fmt.Sprintf("; and %d more", more))
	}
	fmt.Fprintln(env.Stdout, text.String())
	if failing != nil || len(troubles) > 0 {
		return &command.Exit{Code: command.ExitFailed}
	}
	return nil
}

// findPods records the names that pods without probes have.
func (s *selection) findPods(pods []v1.Pod) {
	for _, w := range s.words {
		w.exists = w.exists || slices.ContainsFunc(w.chosen, func(f client.Filter) bool {
			return f.Container == "" && slices.ContainsFunc(pods, func(p v1.Pod) bool {
				return matchPart(f.Namespace, p.Namespace) && matchPart(f.Pod, p.Name)
			})
		})
	}
}

// failureOf returns the name of a failing probe, its target and the cause, for the line.
func failureOf(p *api.ProbeStatus) string {
	cause := p.Cause
	if last := p.Last; cause == "" && last != nil && last.Result != "success" { // by an older agent
		cause = cmp.Or(last.Error, last.Output)
	}
	text := line(nameOf(p)) + " fails"
	if p.State == "unknown" {
		text = line(nameOf(p)) + " has failed, and gives no verdict"
	}
	if p.Target != "" {
		text += " (" + line(p.Target) + ")"
	}
	return text + ": " + line(cmp.Or(strings.TrimSpace(cause), "no output"))
}

// maxTroubles is the maximum number of problems of the agent that are shown.
const maxTroubles = 3

// troublesOf returns the problems of the agent itself: failed checks, warnings, and plugins that do not
// run.
func troublesOf(plugins []api.PluginStatus, checks []client.Check) (troubles []string) {
	about := make(map[string]bool)
	for _, mark := range []string{"-", "!"} {
		for _, c := range checks {
			if c.Mark == mark {
				about[c.Name] = true
				troubles = append(troubles, line(c.Name)+": "+line(c.Text))
			}
		}
	}
	for i := range plugins {
		if p := &plugins[i]; (p.State == "failed" || p.State == "withdrawn") && !about["plugin "+p.Name] {
			troubles = append(troubles, fmt.Sprintf("plugin %s is %s", line(p.Name), p.State))
		}
	}
	return troubles
}

// containersDown returns the containers that do not stay up.
func containersDown(pods []v1.Pod) (down []string) {
	for i := range pods {
		p := &pods[i]
		for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			why := ""
			if w := s.State.Waiting; w != nil && !starting(w) {
				why = w.Reason
			}
			if t := s.State.Terminated; t != nil && t.ExitCode != 0 && p.Status.Phase == v1.PodFailed {
				why = terminated(t)
			}
			if why == "" {
				continue
			}
			if t := cmp.Or(s.State.Terminated, s.LastTerminationState.Terminated); t != nil {
				why += fmt.Sprintf(", exit code %d", t.ExitCode)
			}
			down = append(down, line(fmt.Sprintf("container %s/%s/%s: %s, restarted %s", p.Namespace, p.Name, s.Name, why, command.Count(int(s.RestartCount), "time"))))
		}
	}
	return down
}

// podState returns the STATUS of kubectl get pods: the phase, or the reason for which a container does not
// run.
func podState(p *v1.Pod) string {
	for i, s := range p.Status.InitContainerStatuses {
		switch t, w := s.State.Terminated, s.State.Waiting; {
		case t != nil && t.ExitCode == 0, s.Started != nil && *s.Started: // done, or a sidecar that runs
			continue
		case t != nil:
			return "Init:" + terminated(t)
		case w != nil && !starting(w):
			return "Init:" + w.Reason
		default:
			return fmt.Sprintf("Init:%d/%d", i, len(p.Spec.InitContainers))
		}
	}
	state, runs := cmp.Or(p.Status.Reason, string(p.Status.Phase)), false
	for _, s := range slices.Backward(p.Status.ContainerStatuses) {
		switch t, w := s.State.Terminated, s.State.Waiting; {
		case w != nil && w.Reason != "":
			state = w.Reason
		case t != nil:
			state = terminated(t)
		case s.State.Running != nil:
			runs = true
		}
	}
	if state == "Completed" && runs {
		return string(v1.PodRunning)
	}
	return state
}

// starting reports whether a container is waiting only because it has not started yet.
func starting(w *v1.ContainerStateWaiting) bool {
	return w.Reason == "" || w.Reason == "ContainerCreating" || w.Reason == "PodInitializing"
}

// terminated returns the exit of a container as text.
func terminated(t *v1.ContainerStateTerminated) string {
	return cmp.Or(t.Reason, fmt.Sprintf("ExitCode:%d", t.ExitCode))
}
