// Package maintenancecmd has the commands below maintenance, which start, list and end maintenance windows of an
// agent.
package maintenancecmd

import (
	"cmp"
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
	"github.com/daeace23/prober/internal/explain"
	targetpods "github.com/daeace23/prober/pods/targets"
)

// New returns the command maintenance.
func New(env *command.Env) *cobra.Command {
	agent := new(remote.Flags)
	c := command.Folder("maintenance", "Start, list and end maintenance windows of a running agent",
		newStart(env, agent), newList(env, agent), newEnd(env, agent))
	agent.Add(c)
	return c
}

// start is one call of the command start.
type start struct {
	asked             api.MaintenanceRequest
	length            time.Duration
	from              string
	namespace, labels string
	all               bool
	targets           []string
}

func newStart(env *command.Env, agent *remote.Flags) *cobra.Command {
	var s start
	c := &cobra.Command{
		Use:   "start [TARGET...]",
		Short: "Start a maintenance window",
		Long: "Start begins a maintenance window for probes, at once or at the time of --from. Probes go on, and nobody\n" +
			"is notified of what begins to fail in the window. What still fails at its end is notified then.\n" +
			"A TARGET is a POD, a POD/CONTAINER, or the name or group of a target; * matches any characters. Probes that\n" +
			"appear later are selected too. With --state-dir of the agent the window survives a restart.\n\n" +
			"With --receiver only these receivers get no messages, about all probes or the selected ones. Nothing else\n" +
			"changes: the probes are not in maintenance for others, nor for reports.\n\n" +
			"Exit code 0, 1 if it failed, 3 if the agent does not respond, 64 wrong usage.",
		Example: "  prober maintenance start shop --for 2h --reason 'new disks'\n  prober maintenance start 'db-*' -n shop --for 1h --from 2026-12-24T22:00\n" +
			"  prober maintenance start -l tier=data --for 30m --uptime count\n" +
			"  prober maintenance start --receiver pager --for 2h --reason 'on site'",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: agent.Complete(env, podNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.targets = args
			if err := s.check(time.Now()); err != nil {
				return err
			}
			return ask(cmd, env, agent, func(ctx context.Context, c *client.Client) error { return s.run(ctx, env, c) })
		},
	}
	c.Flags().DurationVar(&s.length, "for", time.Hour, "how long the window lasts")
	c.Flags().StringVar(&s.from, "from", "", "when it begins, such as 2026-12-24T22:00 in the zone of this host, or 2026-12-24T22:00:00Z (default: now)")
	c.Flags().StringVar(&s.asked.Reason, "reason", "", "reason for the window, shown with its probes")
	c.Flags().StringVar(&s.asked.Name, "name", "", "name of the window (default: chosen by the agent)")
	c.Flags().Var(command.OneOf(&s.asked.Uptime, "", "exclude", "count"), "uptime", "whether reports count its time for no state, or for the state of the probe (default: exclude)")
	c.Flags().StringVarP(&s.namespace, "namespace", "n", "", "namespace of the probes (default: all)")
	c.Flags().StringVarP(&s.labels, "selector", "l", "", "labels of the pods and targets, such as app=shop,tier!=cache")
	c.Flags().BoolVar(&s.all, "all", false, "all probes of the agent")
	c.Flags().StringArrayVar(&s.asked.Receivers, "receiver", nil, "the receiver of notifications that gets no messages, instead of all; may be repeated")
	_ = c.RegisterFlagCompletionFunc("receiver", agent.Complete(env, receiverNames)) // the flag exists
	return c
}

// check checks the flags and the arguments.
func (s *start) check(now time.Time) error {
	selected := len(s.targets) > 0 || len(s.asked.Receivers) > 0 || s.namespace != "" || s.labels != ""
	switch {
	case s.all && selected:
		return command.Usage("", "--all cannot be combined with TARGET, --namespace and --selector")
	case !s.all && !selected:
		return command.Usage("prober maintenance start --all selects all probes", "give a TARGET, --namespace, --selector, --receiver or --all")
	case len(s.asked.Receivers) > 0 && s.asked.Uptime != "":
		return command.Usage("reports count the time of a receiver's window as any other", "--receiver and --uptime cannot be combined")
	case s.length < time.Second:
		return command.Usage("", "--for %v: must be at least 1s", s.length)
	}
	s.asked.For = s.length.String()
	if s.from == "" {
		return nil
	}
	var err error
	if s.asked.From, err = parseTime(s.from, now); err != nil {
		return command.Usage("", "--from %w", err)
	}
	return nil
}

// parseTime parses a time in the zone of now, or with a zone of its own.
func parseTime(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is not a time such as 2026-12-24T22:00 or 2026-12-24T22:00:00Z", text)
}

// run starts the window, and prints it.
func (s *start) run(ctx context.Context, env *command.Env, c *client.Client) error {
	base := api.ProbeMatch{Namespace: s.namespace, Labels: s.labels}
	for _, t := range s.targets {
		m, err := resolve(ctx, c, base, t)
		if err != nil {
			return err
		}
		s.asked.Match = append(s.asked.Match, m)
	}
	if len(s.targets) == 0 && base != (api.ProbeMatch{}) {
		s.asked.Match = []api.ProbeMatch{base}
	}
	w, err := c.StartMaintenance(ctx, &s.asked)
	if err != nil {
		return remote.Failed(err)
	}
	text := fmt.Sprintf("maintenance %s of %s", w.Name, command.Count(w.Probes, "probe"))
	if len(w.Receivers) > 0 {
		text += " for " + strings.Join(w.Receivers, ", ") + " alone"
	}
	if w.Active {
		text += " has begun"
	} else {
		text += " begins " + local(w.From)
	}
	fmt.Fprintln(env.Stdout, explain.OneLine(text+", until "+local(w.Until)))
	return nil
}

func local(t time.Time) string { return t.Local().Format(time.RFC3339) }

// resolve returns the entry for a TARGET. A name of a target becomes the name of its pod, and a group its label. A
// name without a pattern must exist.
func resolve(ctx context.Context, c *client.Client, m api.ProbeMatch, word string) (api.ProbeMatch, error) {
	pod, container, _ := strings.Cut(word, "/")
	if strings.ContainsAny(word, `*?[\`) {
		m.Pod, m.Container = pod, container
		return m, nil
	}
	targets, err := c.Targets(ctx, client.TargetFilter{Namespace: m.Namespace})
	if err != nil {
		return m, remote.Failed(err)
	}
	for i := range targets.Items {
		if t := &targets.Items[i]; t.Name == word && t.Pod != "" {
			m.Namespace, m.Pod = t.Namespace, t.Pod
			return m, nil
		}
	}
	probes, err := c.Probes(ctx, client.Filter{Namespace: m.Namespace, Pod: pod, Container: container})
	if err != nil {
		return m, remote.Failed(err)
	}
	if len(probes) == 0 && slices.ContainsFunc(targets.Items, func(t api.Target) bool { return t.Group == word }) {
		if m.Labels != "" {
			m.Labels += ","
		}
		m.Labels += targetpods.GroupLabel + "=" + word
		return m, nil
	}
	if len(probes) == 0 {
		return m, &command.Exit{Code: command.ExitFailed, Err: fmt.Errorf("no probe of %s", explain.OneLine(word)), Hint: "prober get probes lists them"}
	}
	m.Pod, m.Container = pod, container
	return m, nil
}

// receiverNames returns the names of the receivers, for completion.
func receiverNames(ctx context.Context, c *client.Client, _ *cobra.Command, _ []string) (names []string) {
	receivers, err := c.Notifications(ctx)
	for i := range receivers {
		if err == nil {
			names = append(names, receivers[i].Name)
		}
	}
	return names
}

// podNames returns the names of the pods with probes, for completion.
func podNames(ctx context.Context, c *client.Client, _ *cobra.Command, _ []string) (names []string) {
	probes, err := c.Probes(ctx, client.Filter{})
	if err != nil {
		return nil
	}
	for i := range probes {
		names = append(names, probes[i].Pod, probes[i].Pod+"/"+probes[i].Container)
	}
	return names
}

func newList(env *command.Env, agent *remote.Flags) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the maintenance windows",
		Long: "List prints the maintenance windows of prober.yaml and those that were started.\n\n" +
			"Exit code 0, 1 if it failed, 3 if the agent does not respond, 64 wrong usage.",
		Example:           "  prober maintenance list\n  prober maintenance list -o json",
		Args:              command.Arguments(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask(cmd, env, agent, func(ctx context.Context, c *client.Client) error {
				windows, err := c.Maintenance(ctx)
				if err != nil {
					return remote.Failed(err)
				}
				if output != command.Table {
					return env.Encode(output, api.MaintenanceList{Items: windows})
				}
				return table(env.Stdout, windows)
			})
		},
	}
	command.OutputFlag(c, &output, command.Table, command.JSON, command.YAML)
	return c
}

// table prints a row for each window.
func table(out io.Writer, windows []api.MaintenanceWindow) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATE\tFROM\tUNTIL\tPROBES\tRECEIVERS\tBY\tREASON")
	for i := range windows {
		x := &windows[i]
		state, from, until := "over", "", ""
		if !x.From.IsZero() {
			state, from, until = "planned", local(x.From), local(x.Until)
		}
		if x.Active {
			state = "active"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", explain.OneLine(x.Name), state, from, until, x.Probes,
			explain.OneLine(cmp.Or(strings.Join(x.Receivers, ","), "all")), explain.OneLine(cmp.Or(x.By, "prober.yaml")), explain.OneLine(x.Reason))
	}
	return w.Flush()
}

func newEnd(env *command.Env, agent *remote.Flags) *cobra.Command {
	return &cobra.Command{
		Use:   "end NAME",
		Short: "End a maintenance window",
		Long: "End removes a maintenance window that was started by a command. What fails then is notified. A window\n" +
			"of prober.yaml ends when it is removed there and the agent has reloaded.\n\n" +
			"Exit code 0, 1 if it failed, 3 if the agent does not respond, 64 wrong usage.",
		Example: "  prober maintenance end m-4k2zqa",
		Args:    command.Arguments("NAME"),
		ValidArgsFunction: agent.Complete(env, func(ctx context.Context, c *client.Client, _ *cobra.Command, args []string) (names []string) {
			windows, err := c.Maintenance(ctx)
			for i := range windows {
				if err == nil && windows[i].By != "" && len(args) == 0 {
					names = append(names, windows[i].Name)
				}
			}
			return names
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(cmd, env, agent, func(ctx context.Context, c *client.Client) error {
				if err := c.EndMaintenance(ctx, args[0]); err != nil {
					return remote.Failed(err)
				}
				fmt.Fprintf(env.Stdout, "maintenance %s has ended\n", explain.OneLine(args[0]))
				return nil
			})
		},
	}
}

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
