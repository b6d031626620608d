package clientcmd

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
	"github.com/daeace23/prober/internal/timespan"
)

const csvFormat = "csv"

// reporter carries out one report.
type reporter struct {
	env       *command.Env
	filter    client.ReportFilter // of all names
	since     string              // --since and --until as the user has written them
	until     string
	dated     bool // whether one of them is a date or a time
	sel       *selection
	output    string
	noHeaders bool
}

func newReport(env *command.Env) *cobra.Command {
	var agent remote.Flags
	var flags selectionFlags
	r := reporter{env: env}
	c := &cobra.Command{
		Use:   "report [NAME]... [KIND]",
		Short: "Show the past availability of probes",
		Long: "Report shows for each probe how much of the known time its state was success or warning,\n" +
			"and how often and for how long it failed. The agent must run with --state-dir.\n" +
			"Uptime is rounded down: 100% means that there was no failure. Removed pods are included,\n" +
			"but -l selects by the labels of present pods.\n\n" +
			"--since and --until take a duration before now, or a time in the time zone of this host:\n" +
			"2026-11-29 (its first moment), '2026-11-29 14:00', 14:00, today, yesterday,\n" +
			"'yesterday 14:00', or RFC 3339 with any zone.\n\n" + probeNames + "\n\n" +
			"Exit code 0, 1 if a probe was not found or there is no history, 3 if the agent does not\nrespond, 64 wrong usage.",
		Example: "  prober report --since 30d\n  prober report shop/web readiness --incidents\n  prober report -l app=shop --since yesterday --until '2026-11-29 14:00'\n" +
			"  prober report https://shop.example/ready --since 7d\n  prober report -o csv > report.csv",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if r.sel, err = flags.selectionOf(find("probes"), args); err != nil {
				return err
			}
			r.filter.Namespace, r.filter.Kind = r.sel.Namespace, r.sel.Kind
			if err := r.times(cmd, args, time.Now()); err != nil {
				return err
			}
			return ask(cmd, env, &agent, r.run)
		},
		ValidArgsFunction: complete(env, &agent, find("pods")),
	}
	agent.Add(c)
	f := c.Flags()
	f.StringVar(&r.since, "since", "30d", "start: a duration before now such as 30d or 12h, or a time")
	f.StringVar(&r.until, "until", "", "end, in the format of --since (default: now)")
	flags.addPods(c)
	flags.addKind(c)
	f.BoolVar(&r.filter.Incidents, "incidents", false, "list the incidents")
	f.BoolVar(&r.noHeaders, "no-headers", false, "omit the headers of the table")
	command.OutputFlag(c, &r.output, command.Table, wide, command.JSON, command.YAML, csvFormat)
	completeNamespaces(c, env, &agent)
	return c
}

// times reads --since and --until. Dates and times are in the time zone of now.
func (r *reporter) times(cmd *cobra.Command, args []string, now time.Time) error {
	since, until := now, now
	for _, f := range []struct {
		name, text string
		at         *time.Time
		request    *string
	}{{"since", r.since, &since, &r.filter.Since}, {"until", r.until, &until, &r.filter.Until}} {
		if f.text == "" {
			continue
		}
		at, err := timespan.Local(f.text, now)
		if err != nil {
			return command.Usage(command.Line(cmd, args, f.name, "yesterday"), "--%s %w", f.name, err)
		}
		*f.at, *f.request = at, f.text
		if _, err := timespan.Parse(f.text); err != nil {
			*f.request, r.dated = at.Format(time.RFC3339Nano), true
		}
	}
	if !since.Before(until) || !since.Before(now) {
		return command.Usage(command.Line(cmd, args, "since", "7d", "until", ""), "--since must be before --until, and before now")
	}
	return nil
}

// filterOf returns the filter for a meaning of a name.
func (r *reporter) filterOf(m client.Filter) client.ReportFilter {
	f := r.filter
	f.Namespace, f.Pod, f.Container, f.Kind = m.Namespace, m.Pod, m.Container, m.Kind
	return f
}

func (r *reporter) run(ctx context.Context, c *client.Client) error {
	if err := r.sel.matchLabels(ctx, c); err != nil {
		return remote.Failed(err)
	}
	if r.output == csvFormat {
		return r.csv(ctx, c)
	}
	var all api.Report
	missing, err := r.forEachFilter(ctx, c, func(f client.ReportFilter) (bool, error) {
		part, err := c.Report(ctx, f)
		if err != nil {
			return false, err
		}
		all.Since, all.Until, all.Items = part.Since, part.Until, append(all.Items, part.Items...)
		return len(part.Items) > 0, nil
	})
	if err != nil {
		return err
	}
	if len(all.Items) > 0 || len(missing) == 0 {
		if err := r.write(&all); err != nil {
			return err
		}
	}
	return notFound(missing)
}

// forEachFilter calls get for the filters of the names, or once for all probes. get reports whether a filter
// selects something. It returns the names for which no filter does.
func (r *reporter) forEachFilter(ctx context.Context, c *client.Client, get func(client.ReportFilter) (bool, error)) (missing []string, err error) {
	words := r.sel.words
	if r.sel.selector != nil || slices.ContainsFunc(words, func(w *probeName) bool { return isPattern(w.word) }) {
		return r.forEachProbe(ctx, c, get)
	}
	if len(words) == 0 {
		_, err := get(r.filter)
		return nil, remote.Failed(err)
	}
	for _, w := range words {
		found, err := r.firstReading(w, get)
		if err == nil && !found {
			found, err = r.target(ctx, c, w.word, get)
		}
		if err != nil {
			return nil, remote.Failed(err)
		}
		if !found {
			missing = append(missing, w.word)
		}
	}
	return missing, nil
}

// firstReading calls get until a meaning of the name selects something, and reports whether one does.
func (r *reporter) firstReading(w *probeName, get func(client.ReportFilter) (bool, error)) (found bool, err error) {
	for _, m := range w.readings {
		if found, err = get(r.filterOf(m)); found || err != nil {
			break
		}
	}
	return found, err
}

// forEachProbe is like forEachFilter. It lists all probes that have a history, and calls get for each one
// that the names and labels select.
func (r *reporter) forEachProbe(ctx context.Context, c *client.Client, get func(client.ReportFilter) (bool, error)) (missing []string, err error) {
	base := r.filter
	base.Incidents = false
	all, err := c.Report(ctx, base)
	if err != nil {
		return nil, remote.Failed(err)
	}
	targets, err := listedTargets(ctx, c, r.sel.Namespace)
	if err != nil {
		return nil, remote.Failed(err)
	}
	found := make(map[*probeName]bool)
	for i := range all.Items {
		p := &api.ProbeStatus{Namespace: all.Items[i].Namespace, Pod: all.Items[i].Pod, Container: all.Items[i].Container, Kind: all.Items[i].Kind}
		selected := len(r.sel.words) == 0
		for _, w := range r.sel.words {
			if w.reads(p, targets) {
				selected, found[w] = true, true
			}
		}
		if !selected || !r.sel.hasPod(p.Namespace, p.Pod) {
			continue
		}
		if _, err := get(r.filterOf(filterFor(p))); err != nil {
			return nil, remote.Failed(err)
		}
	}
	for _, w := range r.sel.words {
		if !found[w] {
			missing = append(missing, w.word)
		}
	}
	return missing, nil
}

// reads reports whether a meaning of the name, or a target of the name, selects a probe.
func (w *probeName) reads(p *api.ProbeStatus, targets []api.Target) bool {
	if slices.ContainsFunc(w.readings, func(f client.Filter) bool { return matches(&f, p) }) {
		return true
	}
	return slices.ContainsFunc(targets, func(t api.Target) bool {
		return t.Namespace == p.Namespace && t.Pod == p.Pod && objectName{w.word, find("targets").withoutKindPrefix(w.word)}.selects(targetNames(&t)...)
	})
}

// target calls get for the pods of the targets that word names, also of those that are gone.
func (r *reporter) target(ctx context.Context, c *client.Client, word string, get func(client.ReportFilter) (bool, error)) (found bool, err error) {
	targets, err := listedTargets(ctx, c, r.filter.Namespace)
	if err != nil {
		return false, err
	}
	t, err := targetNamed(targets, word)
	if err != nil {
		return false, err
	}
	named := ofGroup(targets, word)
	if t != nil {
		named = []api.Target{*t}
	}
	for i := range named {
		if named[i].Pod == "" {
			continue
		}
		f := r.filter
		f.Namespace, f.Pod = named[i].Namespace, named[i].Pod
		some, err := get(f)
		if err != nil {
			return false, err
		}
		found = found || some
	}
	return found, nil
}

func notFound(missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	return &command.Exit{Code: command.ExitFailed, Err: fmt.Errorf("no history of: %s", line(strings.Join(missing, ", "))), Hint: "prober report --since 365d lists all probes of the last year"}
}

// csv writes the responses of the agent, with one header.
func (r *reporter) csv(ctx context.Context, c *client.Client) error {
	if len(r.sel.words) == 0 && r.sel.selector == nil && !r.noHeaders {
		return remote.Failed(c.ReportCSV(ctx, r.filter, r.env.Stdout))
	}
	head := !r.noHeaders
	missing, err := r.forEachFilter(ctx, c, func(f client.ReportFilter) (bool, error) {
		var text bytes.Buffer
		if err := c.ReportCSV(ctx, f, &text); err != nil {
			return false, err
		}
		first, rest, _ := bytes.Cut(text.Bytes(), []byte("\n")) // no name of a column has a line break
		if head && len(rest) > 0 {
			fmt.Fprintf(r.env.Stdout, "%s\n", first)
			head = false
		}
		_, err := r.env.Stdout.Write(rest)
		return len(rest) > 0, err
	})
	if err != nil {
		return err
	}
	return notFound(missing)
}

// write writes the report, with incidents if requested.
func (r *reporter) write(all *api.Report) error {
	if r.output != command.Table && r.output != wide {
		if all.Items == nil {
			all.Items = []api.ReportItem{}
		}
		return r.env.Encode(r.output, all)
	}
	if len(all.Items) == 0 {
		fmt.Fprintln(r.env.Stderr, "no probes found")
		return nil
	}
	if r.dated {
		fmt.Fprintf(r.env.Stderr, "from %s to %s\n", zoned(all.Since), zoned(all.Until))
	}
	if asked, err := timespan.Before(r.filter.Since, time.Now()); err == nil && all.Since.Sub(asked) > time.Minute {
		fmt.Fprintf(r.env.Stderr, "the history begins at %s\n", all.Since.Local().Format(time.RFC3339))
	}
	t := newTable(r.env, &resource{namespaced: true, columns: reportColumns}, r.output == wide, r.filter.Namespace == "")
	var items []item
	for i := range all.Items {
		of := &all.Items[i]
		names := []string{of.Pod, of.Container, of.Kind}
		if !r.filter.Incidents {
			items = append(items, item{namespace: of.Namespace, cells: append(names, reportCells(of)...)})
			continue
		}
		for k := range of.Incidents {
			items = append(items, item{namespace: of.Namespace, cells: append(names[:3:3], incidentCells(&of.Incidents[k])...)})
		}
	}
	if r.filter.Incidents {
		t.of.columns = incidentColumns
		if len(items) == 0 {
			fmt.Fprintln(r.env.Stderr, "no incidents found")
			return nil
		}
	}
	return t.write(!r.noHeaders, items)
}

// zoned formats a time in the local time zone, with the zone.
func zoned(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST (UTC-07:00)") }

var (
	reportColumns = []column{
		{head: "POD"}, {head: "CONTAINER"}, {head: "KIND"}, {head: "UPTIME"}, {head: "INCIDENTS"}, {head: "DOWN"}, {head: "LONGEST"},
		{"MEAN", true}, {"WARNING", true}, {"UNKNOWN", true}, {"KNOWN", true}, {"HANDLER", true}, {"TARGET", true},
	}
	incidentColumns = []column{
		{head: "POD"}, {head: "CONTAINER"}, {head: "KIND"}, {head: "START"}, {"END", true}, {head: "DURATION"}, {head: "REASON"}, {head: "TEXT"},
	}
)

func reportCells(i *api.ReportItem) []string {
	s := &i.Seconds
	return []string{
		s.Uptime(), strconv.Itoa(i.IncidentCount), lasted(s.Failure), lasted(i.LongestSeconds),
		lasted(i.MeanSeconds), lasted(s.Warning), lasted(s.Unknown), lasted(s.Success + s.Warning + s.Failure + s.Unknown), i.Handler, i.Target,
	}
}

func incidentCells(i *api.Incident) []string {
	took, end := lasted(i.DurationSeconds), "-"
	if i.End.IsZero() {
		took += ", lasts"
	} else {
		end = i.End.Local().Format(time.RFC3339)
	}
	return []string{i.Start.Local().Format(time.RFC3339), end, took, i.Reason, i.Text}
}

// lasted formats a duration like kubectl.
func lasted(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if 0 < d && d < time.Second {
		return "<1s"
	}
	return duration.HumanDuration(d)
}
