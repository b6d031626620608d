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
	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/advise"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
	"github.com/daeace23/prober/internal/timespan"
	"github.com/daeace23/prober/internal/whatif"
	"github.com/daeace23/prober/pods/targets"
)

// maxSampled is the limit of the probes of a group whose durations are read.
const maxSampled = 16

// adviser carries out advise.
type adviser struct {
	env    *command.Env
	sel    *selection
	since  string
	output string
}

func newAdvise(env *command.Env) *cobra.Command {
	var agent remote.Flags
	var flags selectionFlags
	a := adviser{env: env}
	c := &cobra.Command{
		Use:   "advise [NAME]... [KIND]",
		Short: "Suggest timeouts, periods and thresholds of probes",
		Long: "Advise compares the timeout, the period and the thresholds of probes with the durations of their\n" +
			"attempts and with their outages, from the history of an agent. It suggests other values with the\n" +
			"reason for each. It changes nothing.\n\n" +
			"Probes of one target group, or of pods with the same label app, are one row if they have the same\n" +
			"container, kind, handler and spec. Probes with less than a day or 1000 attempts get no suggestion.\n" +
			"The agent must run with --state-dir.\n\n" + probeNames + "\n\n" +
			"Exit code 0, 1 if a probe was not found or there is no history, 3 if the agent does not\nrespond, 64 wrong usage.",
		Example: "  prober advise\n  prober advise shop/web readiness --since 30d\n  prober advise -l app=shop -o json",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if a.sel, err = flags.selectionOf(find("probes"), args); err != nil {
				return err
			}
			if _, err := timespan.Parse(a.since); err != nil {
				return command.Usage(command.Line(cmd, args, "since", "30d"), "--since %w", err)
			}
			return ask(cmd, env, &agent, a.run)
		},
		ValidArgsFunction: complete(env, &agent, find("probes")),
	}
	agent.Add(c)
	c.Flags().StringVar(&a.since, "since", "7d", "start: a duration before now, such as 30d or 48h")
	flags.addPods(c)
	flags.addKind(c)
	command.OutputFlag(c, &a.output, command.Table, command.JSON, command.YAML)
	completeNamespaces(c, env, &agent)
	return c
}

// group is like probes: of one workload, with the same configuration.
type group struct {
	Namespace string         `json:"namespace"`
	Workload  string         `json:"workload"` // target group, label app, or pod
	Container string         `json:"container"`
	Kind      string         `json:"kind"`
	Handler   string         `json:"handler"`
	Spec      api.SpecStatus `json:"spec"`
}

// advised is a group with its advice.
type advised struct {
	group
	Probes  int `json:"probes"`
	Sampled int `json:"sampled"` // probes whose durations were read
	advise.Advice
	DetectionSeconds        float64 `json:"detectionSeconds"`
	AdvisedDetectionSeconds float64 `json:"advisedDetectionSeconds"`
	Failures                int     `json:"failures"`
	AdvisedFailures         int     `json:"advisedFailures"`
}

// advisedList is the JSON of advise.
type advisedList struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	Items []advised `json:"items"`
}

func (a *adviser) run(ctx context.Context, c *client.Client) error {
	probes, err := a.sel.probes(ctx, c)
	if err != nil {
		return remote.Failed(err)
	}
	if err := a.sel.missing(ctx, c).exit(); err != nil {
		return err
	}
	workloads, err := workloadsOf(ctx, c)
	if err != nil {
		return remote.Failed(err)
	}
	changes := make(map[historyKey][]api.StateChange)
	head, err := c.Changes(ctx, client.ReportFilter{Since: a.since}, func(x *api.StateChange) error {
		k := historyKey{x.Namespace, x.Pod, x.Container, x.Kind}
		changes[k] = append(changes[k], *x)
		return nil
	})
	if err != nil {
		return remote.Failed(err)
	}
	list := advisedList{Since: head.Since, Until: head.Until, Items: []advised{}}
	for _, members := range grouped(probes, workloads) {
		item, err := a.adviseGroup(ctx, c, members, workloads, changes)
		if err != nil {
			return remote.Failed(err)
		}
		list.Items = append(list.Items, item)
	}
	if a.output != command.Table {
		return a.env.Encode(a.output, &list)
	}
	return list.write(a.env.Stdout)
}

// historyKey identifies the successive probes with the same names.
type historyKey struct{ namespace, pod, container, kind string }

// workloadsOf returns the workloads of the present pods.
func workloadsOf(ctx context.Context, c *client.Client) (map[podName]string, error) {
	var list v1.PodList
	if err := c.Pods(ctx, &list); err != nil {
		return nil, err
	}
	all := make(map[podName]string)
	for i := range list.Items {
		p := &list.Items[i]
		all[podName{p.Namespace, p.Name}] = cmp.Or(p.Labels[targets.GroupLabel], p.Labels["app.kubernetes.io/name"], p.Labels["app"], p.Name)
	}
	return all, nil
}

func groupOf(p *api.ProbeStatus, workloads map[podName]string) group {
	workload := cmp.Or(workloads[podName{p.Namespace, p.Pod}], p.Pod)
	return group{p.Namespace, workload, p.Container, p.Kind, p.Handler, p.Spec}
}

// grouped returns the probes of each group, in the order of the first of them. Startup probes end, and pushes and
// endpoints make no attempts.
func grouped(probes []api.ProbeStatus, workloads map[podName]string) (all [][]api.ProbeStatus) {
	index := make(map[group]int)
	for i := range probes {
		p := &probes[i]
		if p.Handler == api.TypeEndpoint || p.Handler == api.TypePush || p.Kind == "startup" {
			continue
		}
		g := groupOf(p, workloads)
		n, ok := index[g]
		if !ok {
			n = len(all)
			index[g], all = n, append(all, nil)
		}
		all[n] = append(all[n], *p)
	}
	return all
}

func (a *adviser) adviseGroup(ctx context.Context, c *client.Client, members []api.ProbeStatus, workloads map[podName]string, changes map[historyKey][]api.StateChange) (item advised, err error) {
	item = advised{group: groupOf(&members[0], workloads), Probes: len(members), Sampled: min(len(members), maxSampled)}
	measured := make([]advise.Probe, len(members))
	for i := range members {
		p := &members[i]
		mine := changes[historyKey{p.Namespace, p.Pod, p.Container, p.Kind}]
		slices.SortStableFunc(mine, func(x, y api.StateChange) int { return x.Time.Compare(y.Time) })
		measured[i].Changes = advise.WithoutMaintenance(mine)
	}
	for n := range item.Sampled { // evenly spaced
		i := n * len(members) / item.Sampled
		p := &members[i]
		h, err := c.History(ctx, p.Namespace, p.Pod, p.Container, p.Kind, a.since)
		if e, ok := errors.AsType[*client.StatusError](err); ok && e.Status == http.StatusNotFound {
			continue // the probe is new
		} else if err != nil {
			return item, err
		}
		measured[i].Points = h.Points
	}
	spec, ok := specOf(&members[0])
	if !ok {
		return item, fmt.Errorf("the agent has no valid spec of %s/%s", members[0].Namespace, members[0].Pod)
	}
	item.Advice = advise.For(spec, measured)
	item.DetectionSeconds, item.AdvisedDetectionSeconds = item.Detection.Seconds(), item.AdvisedDetection.Seconds()
	item.Failures, item.AdvisedFailures = item.Advice.Failures, item.Advice.AdvisedFailures
	return item, nil
}

func specOf(p *api.ProbeStatus) (spec advise.Spec, ok bool) {
	period, err := time.ParseDuration(p.Spec.Period)
	timeout, err2 := time.ParseDuration(p.Spec.Timeout)
	spec = advise.Spec{
		Thresholds: whatif.Thresholds{Period: period, Success: p.Spec.SuccessThreshold, Failure: p.Spec.FailureThreshold}, Timeout: timeout, Kind: p.Kind,
	}
	return spec, err == nil && err2 == nil && period > 0 && spec.Success > 0 && spec.Failure > 0
}

func (l *advisedList) write(out io.Writer) error {
	probes, attempts, outages, with, short := 0, 0, 0, 0, 0
	for i := range l.Items {
		item := &l.Items[i]
		probes, attempts, outages = probes+item.Probes, attempts+item.Data.Attempts, outages+item.Data.Outages
		if item.TooLittle != "" {
			short += item.Probes
		}
		if len(item.Suggestions) > 0 {
			with += item.Probes
		}
	}
	layout := "2006-01-02 15:04 MST"
	fmt.Fprintf(out, "%d probes from %s to %s: %d attempts measured, %d outages\n", probes, l.Since.Local().Format(layout), l.Until.Local().Format(layout), attempts, outages)
	fmt.Fprintf(out, "%d with suggestions, %d with too little data\n", with, short)
	if with == 0 {
		return nil
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 4, 3, ' ', 0)
	fmt.Fprintln(w, "PROBES\tFIELD\tNOW\tADVISED\tREASON")
	for i := range l.Items {
		item := &l.Items[i]
		name := strings.Join([]string{line(item.Namespace), line(item.Workload), line(item.Container)}, "/") + " " + line(item.Kind)
		if item.Probes > 1 {
			name += fmt.Sprintf(" (%d)", item.Probes)
		}
		for _, s := range item.Suggestions {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", name, s.Field, s.Now, s.Advised, s.Reason)
			name = ""
		}
		if len(item.Suggestions) > 0 {
			fmt.Fprintf(w, "\tdetection\t%s\t%s\t%d failures, %d as advised\n", lasted(item.DetectionSeconds), lasted(item.AdvisedDetectionSeconds), item.Failures, item.AdvisedFailures)
		}
	}
	return w.Flush()
}
