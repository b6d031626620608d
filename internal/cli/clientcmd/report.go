package clientcmd

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
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
	"github.com/daeace23/prober/probe"
)

const csvFormat = "csv"

// reporter carries out one report.
type reporter struct {
	env       *command.Env
	filter    client.ReportFilter
	words     []string // names of probes; empty for all
	output    string
	noHeaders bool
}

func newReport(env *command.Env) *cobra.Command {
	var agent remote.Flags
	r := reporter{env: env}
	c := &cobra.Command{
		Use:   "report [POD[/CONTAINER]]...",
		Short: "Show the past availability of probes",
		Long: "Report shows for each probe how much of the known time its state was success or warning, and how\n" +
			"often and for how long it failed. The agent must run with --state-dir. Removed pods are included.\n" +
			"Uptime is rounded down: 100% means that there was no failure.\n" +
			"An argument is POD, NAMESPACE/POD, POD/CONTAINER[/KIND], NAMESPACE/POD/CONTAINER[/KIND], a line of\n" +
			"get probes -o name, or the address or the name of a target of prober.yaml. A kind may follow a single\nargument.\n\n" +
			"Exit code 0, 1 if a probe was not found or there is no history, 3 if the agent does not respond, 64 wrong usage.",
		Example: "  prober report --since 30d\n  prober report shop/web readiness --incidents\n  prober report https://shop.example/ready --since 7d\n  prober report -o csv > report.csv",
		RunE: func(cmd *cobra.Command, args []string) error {
			r.names(args)
			if err := r.check(time.Now()); err != nil {
				return err
			}
			return ask(cmd, env, &agent, r.run)
		},
		ValidArgsFunction: complete(env, &agent, find("pods")),
	}
	agent.Add(c)
	f := c.Flags()
	f.StringVar(&r.filter.Since, "since", "30d", "start: a duration before now such as 30d or 12h, or a time such as 2026-01-02T15:04:05Z")
	f.StringVar(&r.filter.Until, "until", "", "end, in the format of --since (default: now)")
	f.StringVarP(&r.filter.Namespace, "namespace", "n", "", "namespace (default: all)")
	f.Var(command.OneOf(&r.filter.Kind, "", "liveness", "readiness", "startup"), "kind", "kind of the probe")
	f.BoolVar(&r.filter.Incidents, "incidents", false, "list the incidents")
	f.BoolVar(&r.noHeaders, "no-headers", false, "omit the headers of the table")
	command.OutputFlag(c, &r.output, command.Table, wide, command.JSON, command.YAML, csvFormat)
	completeNamespaces(c, env, &agent)
	return c
}

// names sets the names of the arguments. A kind may follow a single name.
func (r *reporter) names(args []string) {
	r.words = args
	if len(args) != 2 || r.filter.Kind != "" {
		return
	}
	if _, err := probe.ParseKind(args[1]); err == nil {
		r.words, r.filter.Kind = args[:1], args[1]
	}
}

// check validates the flags and the arguments.
func (r *reporter) check(now time.Time) error {
	until := now
	since, err := timespan.Before(r.filter.Since, now)
	if err != nil {
		return command.Usage("", "--since %w", err)
	}
	if r.filter.Until != "" {
		if until, err = timespan.Before(r.filter.Until, now); err != nil {
			return command.Usage("", "--until %w", err)
		}
	}
	if !since.Before(until) || !since.Before(now) {
		return command.Usage("", "--since must be before --until, and before now")
	}
	for _, word := range r.words {
		if len(r.readings(word)) == 0 && !isAddress(word) {
			return command.Usage("", "%q%s: must be POD, NAMESPACE/POD, POD/CONTAINER[/KIND] or NAMESPACE/POD/CONTAINER[/KIND]",
				word, kindAndNamespace(r.filter.Kind, r.filter.Namespace))
		}
	}
	return nil
}

// readings returns the filters for the possible meanings of a name, the most likely first.
func (r *reporter) readings(word string) (all []client.ReportFilter) {
	parts := strings.Split(word, "/")
	if slices.Contains(parts, "") || isAddress(word) {
		return nil
	}
	meant := readings(parts)
	if len(parts) == 2 {
		meant = append(meant, client.Filter{Namespace: parts[0], Pod: parts[1]})
	}
	for _, m := range meant {
		if conflict(m.Namespace, r.filter.Namespace) || conflict(m.Kind, r.filter.Kind) {
			continue
		}
		f := r.filter
		f.Namespace, f.Pod, f.Container, f.Kind = cmp.Or(m.Namespace, f.Namespace), m.Pod, m.Container, cmp.Or(m.Kind, f.Kind)
		all = append(all, f)
	}
	return all
}

func (r *reporter) run(ctx context.Context, c *client.Client) error {
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
	if len(r.words) == 0 {
		_, err := get(r.filter)
		return nil, remote.Failed(err)
	}
	for _, word := range r.words {
		found, err := firstOf(r.readings(word), get)
		if err == nil && !found {
			found, err = r.target(ctx, c, word, get)
		}
		if err != nil {
			return nil, remote.Failed(err)
		}
		if !found {
			missing = append(missing, word)
		}
	}
	return missing, nil
}

// firstOf calls get until a filter selects something, and reports whether one does.
func firstOf(filters []client.ReportFilter, get func(client.ReportFilter) (bool, error)) (found bool, err error) {
	for _, f := range filters {
		if found, err = get(f); found || err != nil {
			break
		}
	}
	return found, err
}

// target calls get for the pod of the target that word names, also of one that is gone.
func (r *reporter) target(ctx context.Context, c *client.Client, word string, get func(client.ReportFilter) (bool, error)) (found bool, err error) {
	t, err := targetNamed(ctx, c, r.filter.Namespace, word)
	if err != nil || t == nil || t.Pod == "" {
		return false, err
	}
	f := r.filter
	f.Namespace, f.Pod = t.Namespace, t.Pod
	return get(f)
}

func notFound(missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	return command.Failed(fmt.Errorf("no history of: %s", line(strings.Join(missing, ", "))))
}

// csv writes the responses of the agent, with one header.
func (r *reporter) csv(ctx context.Context, c *client.Client) error {
	if len(r.words) == 0 && !r.noHeaders {
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
	if asked, err := timespan.Before(r.filter.Since, time.Now()); err == nil && all.Since.Sub(asked) > time.Minute {
		fmt.Fprintf(r.env.Stderr, "the history begins at %s\n", all.Since.Local().Format(time.RFC3339))
	}
	t := &table{of: &resource{namespaced: true, columns: reportColumns}, wide: r.output == wide, anywhere: r.filter.Namespace == "", out: r.env.Stdout}
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
		uptime(i), strconv.Itoa(i.IncidentCount), lasted(s.Failure), lasted(i.LongestSeconds),
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

// uptime returns the share of the known time without failures. It is rounded to three digits such that it
// is 100% only without any failure, and 0% only if all of the time was a failure.
func uptime(i *api.ReportItem) string {
	millis := func(seconds float64) int64 { return int64(math.Round(seconds * 1000)) }
	up := millis(i.Seconds.Success + i.Seconds.Warning)
	down := millis(i.Seconds.Failure)
	switch {
	case up+down == 0:
		return "-"
	case down == 0:
		return "100%"
	case up == 0:
		return "0%"
	}
	parts := up * 100_000 / (up + down)
	if parts == 0 {
		return "<0.001%"
	}
	return fmt.Sprintf("%d.%03d%%", parts/1000, parts%1000)
}
