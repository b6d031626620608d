package clientcmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
)

// newDescribe returns the command describe.
func newDescribe(env *command.Env) *cobra.Command {
	c := aboutProbes(env, &cobra.Command{
		Use:   "describe",
		Short: "Show the details of probes of a running agent",
		Long: "Describe shows probes with their spec, their state, their last ticks and the events of their\n" +
			"pods, with the checks of endpoints, the reports of pushes and the certificates of servers.\n\n" +
			"Exit code 0, 1 if there is no such probe, 3 if the agent does not respond, 64 wrong usage.",
		Example: "  prober describe shop/web readiness\n  prober describe -l app=shop --state failure",
	}, func(ctx context.Context, c *client.Client, s *selection) error { return describe(ctx, env, c, s) })
	c.AddCommand(newDescribeIncident(env))
	return c
}

func describe(ctx context.Context, env *command.Env, c *client.Client, s *selection) error {
	probes, absent, err := someProbes(ctx, c, s)
	if err != nil {
		return err
	}
	events, err := listEvents(ctx, c, &selection{})
	if err != nil {
		return remote.Failed(err)
	}
	events = slices.DeleteFunc(events, func(e item) bool {
		return !slices.ContainsFunc(probes, func(p api.ProbeStatus) bool { return p.Namespace == e.namespace && p.Pod == e.pod })
	})
	for i := range probes {
		if i > 0 {
			fmt.Fprintln(env.Stdout)
		}
		if err := describeProbe(env.Stdout, &probes[i]); err != nil {
			return err
		}
	}
	if err := describeEndpoints(ctx, env, c, probes); err != nil {
		return err
	}
	if err := describeCertificates(ctx, env, c, probes); err != nil {
		return err
	}
	if len(events) > 0 {
		fmt.Fprintln(env.Stdout, "\nEvents of the pod:")
		if err := newTable(env, find("events"), false, false).write(true, events); err != nil {
			return err
		}
	}
	return absent.exit()
}

// describeEndpoints shows the checks of the endpoints among probes, and the reports of the pushes.
func describeEndpoints(ctx context.Context, env *command.Env, c *client.Client, probes []api.ProbeStatus) error {
	for i := range probes {
		p := &probes[i]
		if p.Handler != p.Container || p.Handler != api.TypeEndpoint && p.Handler != api.TypePush {
			continue
		}
		all, err := c.Endpoints(ctx, client.EndpointFilter{Namespace: p.Namespace, Name: p.Pod, Type: p.Handler})
		if err != nil {
			return remote.Failed(err)
		}
		for j := range all {
			write := describeChecks
			if all[j].Push != nil {
				write = describePush
			}
			if err := write(env.Stdout, &all[j]); err != nil {
				return err
			}
		}
	}
	return nil
}

func describeChecks(out io.Writer, e *api.Endpoint) error {
	fmt.Fprintf(out, "\nChecks (%s must pass):\n", line(e.Rule))
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, check := range e.Checks {
		state := check.State
		if check.Drained {
			state += " (drained)"
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\n", line(check.Name), state, line(check.Cause))
	}
	for _, name := range e.Missing {
		fmt.Fprintf(w, "  %s\tmissing\tit has no probe\n", line(name))
	}
	return w.Flush()
}

func describePush(out io.Writer, e *api.Endpoint) error {
	fmt.Fprintln(out, "\nReports:")
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	last := "none"
	if p := e.Push; !p.LastReport.IsZero() {
		last = ago(p.LastReport) + " ago"
		if p.Message != "" {
			last += ": " + p.Message
		}
	}
	fmt.Fprintf(w, "  last\t%s\n", line(last))
	if !e.Push.Started.IsZero() {
		fmt.Fprintf(w, "  running\tfor %s\n", ago(e.Push.Started))
	}
	if !e.Push.Due.IsZero() {
		fmt.Fprintf(w, "  due\tin %s\n", max(time.Until(e.Push.Due), 0).Round(time.Second))
	}
	return w.Flush()
}

// shownTicks is the number of ticks of the history that are shown.
const shownTicks = 10

func describeProbe(out io.Writer, p *api.ProbeStatus) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	field := func(name, value string) { fmt.Fprintf(w, "%s:\t%s\n", name, value) }
	field("Probe", line(nameOf(p)))
	field("Handler", line(p.Handler))
	if p.Target != "" { // set by older agents
		field("Target", line(p.Target))
	}
	since := ""
	if !p.StateSince.IsZero() {
		since = " for " + ago(p.StateSince)
	}
	field("State", line(p.Now()+since))
	field("Decided", fmt.Sprintf("%s (%s)", line(p.Result), runText(p)))
	field("Gate", line(p.Activity(time.RFC3339, time.Local)))
	if p.PausedBy != "" {
		by := "Paused by"
		if p.Forced != "" {
			by = "Forced by"
		}
		field(by, line(p.PausedBy))
	}
	if !p.PausedUntil.IsZero() {
		field("Resumes", "in "+max(time.Until(p.PausedUntil), 0).Round(time.Second).String())
	}
	if m := p.Maintenance; m != nil {
		field("Maintenance", line(m.Text(time.RFC3339, time.Local)))
	}
	field("Spec", specText(&p.Spec))
	if !p.Next.IsZero() {
		field("Next", "in "+max(time.Until(p.Next), 0).Round(100*time.Millisecond).String())
	}
	if last := p.Last; last != nil {
		field("Last", fmt.Sprintf("%s, %s ago, in %s, %s", line(last.Result), ago(last.Time), seconds(last.DurationSeconds), command.Count(last.Attempts, "attempt")))
		if last.Output != "" {
			field("Output", line(last.Output))
		}
		if last.Error != "" {
			field("Error", line(last.Error))
		}
		for _, m := range last.Metrics {
			field("Metric", line(strings.TrimSpace(fmt.Sprintf("%s %v %s", m.Name, m.Value, m.Unit))))
		}
		if len(last.Details) > 0 {
			field("Details", line(string(last.Details)))
		}
	}
	if len(p.History) > 0 {
		fmt.Fprintln(w, "History:")
		for _, t := range p.History[:min(len(p.History), shownTicks)] {
			fmt.Fprintf(w, "  %s ago\t%s\t%s\t%s\n", ago(t.Time), line(t.Result), seconds(t.DurationSeconds), line(t.Output+t.Error))
		}
	}
	return w.Flush()
}

// specText describes the spec of a probe.
func specText(s *api.SpecStatus) string {
	text := fmt.Sprintf("every %s, timeout %s, %d to succeed, %d to fail, initial delay %s",
		line(s.Period), line(s.Timeout), s.SuccessThreshold, s.FailureThreshold, line(s.InitialDelay))
	if s.UnhealthyPeriod != "" {
		text += ", every " + line(s.UnhealthyPeriod) + " while unhealthy"
	}
	if s.Jitter != 0 {
		text += fmt.Sprintf(", jitter %.3g%%", 100*s.Jitter)
	}
	if s.InitialState != "" {
		text += ", initially " + line(s.InitialState)
	}
	return text
}

// runText describes the run of equal results: its length, and the threshold for a decided result.
func runText(p *api.ProbeStatus) string {
	if p.Last == nil {
		return "no tick yet"
	}
	return fmt.Sprintf("%s: %s in a row", line(p.Last.Result), command.Count(p.Run, "tick"))
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(10 * time.Microsecond).String()
}
