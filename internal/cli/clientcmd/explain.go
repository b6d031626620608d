package clientcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// newExplain returns the command explain.
func newExplain(env *command.Env) *cobra.Command {
	var output string
	c := aboutProbes(env, &cobra.Command{
		Use:   "explain",
		Short: "Show why probes have their results",
		Long: "Explain shows for each probe one sentence: why its last tick did or did not change its result, and\n" +
			"what happens next. For an endpoint of prober.yaml it lists the checks that decide its state, with their\n" +
			"causes. It then shows the last tick that was not a success, with the steps of its attempts, the\n" +
			"previous ticks, and how long 50, 90 and 99 % of the ticks and their phases took in the last 24 hours,\n" +
			"if the agent runs with --state-dir. If there is no such probe, if a target is dropped or gone, or if the agent has\n" +
			"refused a change of a manifest or a plugin, it shows the reason.\n\n" +
			"Exit code 0, 1 if there is no such probe, 3 if the agent does not respond, 64 wrong usage.",
		Example: "  prober explain shop/web readiness\n  prober explain https://shop.example/ready\n  prober explain -l app=shop --state failure",
	}, func(ctx context.Context, c *client.Client, s *selection) error {
		return explainProbes(ctx, env, c, s, output)
	})
	command.OutputFlag(c, &output, command.Table, command.JSON, command.YAML)
	return c
}

func explainProbes(ctx context.Context, env *command.Env, c *client.Client, s *selection, output string) error {
	probes, err := s.probes(ctx, c)
	if err != nil {
		return remote.Failed(err)
	}
	all, err := explanations(ctx, c, probes)
	if err != nil {
		return remote.Failed(err)
	}
	checks, err := c.Checks(ctx)
	if err != nil {
		return remote.Failed(err)
	}
	checks = slices.DeleteFunc(checks, func(c client.Check) bool { return c.Mark == "+" })
	absent := s.missing(ctx, c)
	if len(all) == 0 {
		return noProbe(s, absent, checks)
	}
	if output != command.Table {
		if err := env.Encode(output, struct {
			Items []explanation `json:"items"`
		}{all}); err != nil {
			return err
		}
		return absent.exit()
	}
	bars := command.IsTerminal(env.Stdout)
	for i := range all {
		if i > 0 {
			fmt.Fprintln(env.Stdout)
		}
		if err := writeExplanation(env.Stdout, &all[i].Explanation, bars); err != nil {
			return err
		}
		if err := writeDurations(env.Stdout, all[i].Durations); err != nil {
			return err
		}
	}
	if len(checks) > 0 {
		fmt.Fprintln(env.Stdout, "\nThe agent itself:")
	}
	if err := writeChecks(env.Stdout, checks); err != nil {
		return err
	}
	return absent.exit()
}

// explanation is an explanation with the durations of ticks.
type explanation struct {
	api.Explanation
	Durations *api.ProbeDurations `json:"durations,omitzero"` // absent if the agent keeps no history
}

// explanations returns the explanations of the probes that still exist.
func explanations(ctx context.Context, c *client.Client, probes []api.ProbeStatus) ([]explanation, error) {
	all := []explanation{}
	for i := range probes {
		p := &probes[i]
		name := client.Filter{Namespace: p.Namespace, Pod: p.Pod, Container: p.Container, Kind: p.Kind}
		x, err := c.Explain(ctx, name)
		if notThere(err) {
			continue // it has just ended
		}
		if err != nil {
			return nil, err
		}
		d, err := c.Durations(ctx, name)
		switch {
		case err == nil:
			all = append(all, explanation{x, &d})
		case notThere(err):
			all = append(all, explanation{Explanation: x})
		default:
			return nil, err
		}
	}
	return all, nil
}

// notThere reports whether a response says that something does not exist.
func notThere(err error) bool {
	e, ok := errors.AsType[*client.StatusError](err)
	return ok && e.Status == http.StatusNotFound
}

// writeDurations writes the percentiles of ticks and of their phases.
func writeDurations(out io.Writer, d *api.ProbeDurations) error {
	if d == nil || d.Ticks == 0 {
		return nil
	}
	fmt.Fprintf(out, "\nDurations since %s:\n", d.Since.Local().Format(time.RFC3339))
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "  \tp50\tp90\tp99\tticks")
	row := func(name string, p *api.DurationPercentiles) {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%d\n", line(name), estimate(p.P50Seconds), estimate(p.P90Seconds), estimate(p.P99Seconds), p.Ticks)
	}
	row("tick", &d.DurationPercentiles)
	for i := range d.Phases {
		row(d.Phases[i].Name, &d.Phases[i].DurationPercentiles)
	}
	return w.Flush()
}

// estimate returns a duration with the two digits that are known of a percentile.
func estimate(s float64) string {
	d := time.Duration(s * float64(time.Second))
	unit := time.Microsecond
	for d >= 100*unit {
		unit *= 10
	}
	return d.Round(unit).String()
}

// noProbe returns the error of a selection without a probe. It has the reason if discovery has dropped
// the target, and the changes that the agent has refused. It leaves out checks of the agent's host and
// state, since these remove no probes.
func noProbe(s *selection, absent *missing, checks []client.Check) error {
	if len(absent.errs) == 0 { // all names have probes, which flags exclude
		absent.errs, absent.hint = []error{fmt.Errorf("no probe of %s", s)}, listsProbes
	}
	checks = slices.DeleteFunc(checks, func(c client.Check) bool { return c.Name == "host" || c.Name == "state" })
	if len(checks) > 0 {
		var b strings.Builder
		_ = writeChecks(&b, checks) // cannot fail: b is in memory
		last := len(absent.errs) - 1
		absent.errs[last] = fmt.Errorf("%w; the agent says:\n%s", absent.errs[last], strings.TrimSuffix(b.String(), "\n"))
	}
	return absent.exit()
}

// writeChecks writes checks of the agent, one per line.
func writeChecks(w io.Writer, checks []client.Check) error {
	var b strings.Builder
	for _, c := range checks {
		fmt.Fprintf(&b, "  %s: %s\n", line(c.Name), line(c.Text))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeExplanation writes the sentence first.
func writeExplanation(w io.Writer, x *api.Explanation, bars bool) error {
	p := &x.Probe
	fmt.Fprintf(w, "%s (%s): %s\n%s\n", line(nameOf(p)), line(cmp.Or(p.Target, p.Handler)), line(p.Word()), line(x.Summary))
	writeDeciding(w, x)
	t := toShow(x)
	if t == nil {
		return nil
	}
	fmt.Fprintf(w, "\n%s, %s ago, in %s", title(t), ago(t.Time), seconds(t.DurationSeconds))
	if t.DeferredSeconds > 0 {
		fmt.Fprintf(w, " after %s without a slot", seconds(t.DeferredSeconds))
	}
	fmt.Fprintln(w)
	text := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	details := explain.Read(string(t.Details))
	if details.Body == "" && t.Reason == string(probe.ReasonHTTPStatus) {
		details.Body = "not kept: --show-output of the agent keeps the beginning"
	}
	output := t.Output
	if t.Reason == string(probe.ReasonDeadline) {
		output = details.Awaited.After(output) // as in the cause of the state
	}
	for _, field := range [...][2]string{
		{"Output", output}, {"Error", t.Error}, {"Reason", t.Reason}, {"Waiting", details.Waiting}, {"Body", details.Body},
	} {
		if field[1] != "" {
			fmt.Fprintf(text, "  %s:\t%s\n", field[0], line(field[1]))
		}
	}
	if err := text.Flush(); err != nil {
		return err
	}
	if len(t.Events) > 0 {
		fmt.Fprintln(w, explain.Attempt("1"))
	}
	if err := explain.WriteEvents(w, eventsOf(t), bars); err != nil {
		return err
	}
	if t.DroppedEvents > 0 {
		fmt.Fprintf(w, "  %s dropped\n", command.Count(t.DroppedEvents, "further event"))
	}
	return writeTicks(w, x.Ticks)
}

// maxDecidingLines is the number of deciding checks that are shown.
const maxDecidingLines = 50

// writeDeciding writes a line for each check that decides the state of an endpoint, and the endpoints that have
// the probe as a check.
func writeDeciding(w io.Writer, x *api.Explanation) {
	shown := x.Deciding[:min(len(x.Deciding), maxDecidingLines)]
	if len(shown) > 0 {
		fmt.Fprintln(w, "\nDecided by:")
	}
	for i := range shown {
		c := &shown[i]
		text := c.Name + ": " + c.State
		if !c.StateSince.IsZero() {
			text += " since " + c.StateSince.Local().Format(time.RFC3339)
		}
		if c.Cause != "" {
			text += ": " + c.Cause
		}
		fmt.Fprintf(w, "  %s\n", line(text))
	}
	if more := len(x.Deciding) - len(shown); more > 0 {
		fmt.Fprintf(w, "  and %s\n", command.Count(more, "more check"))
	}
	if len(x.PartOf) > 0 {
		names := make([]string, len(x.PartOf))
		for i, e := range x.PartOf {
			names[i] = e.Name
		}
		fmt.Fprintf(w, "\nPart of: %s\n", line(strings.Join(names, ", ")))
	}
}

// toShow returns the newest tick that was not a success, or the last tick if all were; nil if there are
// none.
func toShow(x *api.Explanation) *api.TickExplanation {
	for i := range x.Ticks {
		if !succeeded(&x.Ticks[i]) {
			return &x.Ticks[i]
		}
	}
	if len(x.Ticks) == 0 {
		return nil
	}
	return &x.Ticks[0]
}

func succeeded(t *api.TickExplanation) bool {
	return t.Result == probe.Success.String() && t.Error == ""
}

func title(t *api.TickExplanation) string {
	what := t.Result
	if t.Error != "" {
		what = "error"
	}
	return "Last " + line(what)
}

func eventsOf(t *api.TickExplanation) []probe.TraceEvent {
	events := make([]probe.TraceEvent, len(t.Events))
	for i, e := range t.Events {
		events[i] = probe.TraceEvent{
			Type: probe.TraceType(line(e.Type)), Name: e.Name, Detail: e.Detail, Duration: time.Duration(e.DurationSeconds * float64(time.Second)),
		}
	}
	return events
}

// writeTicks writes one line for each tick.
func writeTicks(out io.Writer, ticks []api.TickExplanation) error {
	fmt.Fprintln(out, "\nTicks:")
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for i := range ticks {
		t := &ticks[i]
		fmt.Fprintf(w, "  %s ago\t%s\t%s\t%s\t%s\t%s\n", ago(t.Time), line(t.Result), seconds(t.DurationSeconds),
			command.Count(t.Attempts, "attempt"), foldText(t), line(clip.Marked(t.Output+t.Error, maxExcerpt, "...")))
	}
	return w.Flush()
}

// maxExcerpt is the maximum length of a tick's output on its line, in bytes.
const maxExcerpt = 100

// foldText describes the effect of the thresholds on a tick.
func foldText(t *api.TickExplanation) string {
	switch {
	case !t.Counted:
		return "not counted"
	case t.Before != t.After:
		return fmt.Sprintf("%d of %d: became %s", t.Run, t.Threshold, line(t.After))
	case t.Run < t.Threshold:
		return fmt.Sprintf("%d of %d", t.Run, t.Threshold)
	default:
		return fmt.Sprintf("stays %s", line(t.After))
	}
}
