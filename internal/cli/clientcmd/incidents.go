package clientcmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
)

func incidentResource() *resource {
	return &resource{
		name: "incidents", aliases: []string{"incident", "inc"}, short: "Show incidents: failing probes, grouped by what they share", args: "[ID]...",
		example: "  prober get incidents\n  prober get incidents --state open -n shop -o wide\n  prober get incidents -w",
		columns: []column{
			{head: "ID"}, {head: "STARTED"}, {head: "STATE"}, {head: "PROBES"}, {head: "CAUSE"}, {head: "FIRST"},
			{"LASTED", true}, {"CAUSE", true}, {"FIRST", true}, {"TARGET", true}, {"OUTPUT", true},
		},
		labelled: true,
		narrow:   []int{4, 5}, // shortened
		list:     listIncidents, every: 2 * time.Second,
	}
}

func listIncidents(ctx context.Context, c *client.Client, s *selection) ([]item, error) {
	if err := s.match(ctx, c); err != nil {
		return nil, err
	}
	all, err := c.Incidents(ctx, client.IncidentFilter{Namespace: s.Namespace, State: s.State})
	if err != nil {
		return nil, err
	}
	var shown []*api.IncidentStatus
	for i := range all {
		n, ok := all[i].Only(func(p *api.IncidentPart) bool { return s.hasPod(p.Namespace, p.Pod) })
		if ok && s.selectsName(n.ID) {
			shown = append(shown, &n)
		}
	}
	return incidentItems(shown), nil
}

// maxPair is the maximum number of characters of a cause and a pod in a table of 80 columns.
const maxPair = 42

// minPod is the number of characters of a pod that are always shown.
const minPod = 12

// incidentItems returns the rows of incidents.
func incidentItems(all []*api.IncidentStatus) (items []item) {
	longest, forPod, pair := 0, 0, maxPair
	for _, n := range all {
		if n.Maintenance {
			pair = maxPair - len(" ("+api.InMaintenance+")")
		}
		longest, forPod = max(longest, utf8.RuneCountInString(line(n.Cause))), max(forPod, utf8.RuneCountInString(line(n.First.Pod)))
	}
	forPod = min(forPod, max(pair-longest, minPod))
	for _, n := range all {
		items = append(items, item{
			name: n.ID, object: n,
			cells: []string{
				n.ID, ago(n.Start), n.Word(), fmt.Sprint(probesOf(n)), shortened(n.Cause, pair-forPod), shortened(n.First.Pod, forPod),
				lastedOf(n), n.Cause, partName(&n.First), n.First.Target, n.First.Cause,
			},
		})
	}
	return items
}

// probesOf returns the number of probes that fail, or that failed in an incident that has ended.
func probesOf(n *api.IncidentStatus) int {
	if n.State == api.IncidentEnded {
		return n.Probes
	}
	return n.Failing
}

// shortened returns text with at most most characters.
func shortened(text string, most int) string {
	all := []rune(line(text))
	if len(all) <= most {
		return string(all)
	}
	return string(all[:most-1]) + "…"
}

// lastedOf returns how long an incident has lasted.
func lastedOf(n *api.IncidentStatus) string {
	end := n.End
	if end.IsZero() {
		end = time.Now()
	}
	return lasted(end.Sub(n.Start).Seconds())
}

func partName(p *api.IncidentPart) string {
	return p.Namespace + "/" + p.Pod + "/" + p.Container + " " + p.Kind
}

// poll writes the items of s, and then those that have changed, until ctx ends. It is for resources without events.
func (g *getter) poll(ctx context.Context, c *client.Client, s *selection, print printer) error {
	if g.output == command.JSON || g.output == command.YAML {
		print = g.eachObject
	}
	seen := make(map[string]string)
	for {
		items, err := g.of.list(ctx, c, s)
		switch {
		case ctx.Err() != nil:
			return nil // the user has interrupted the command
		case err != nil:
			return remote.Failed(err)
		}
		now, changed := make(map[string]string, len(items)), []item(nil)
		for i := range items {
			key := items[i].key()
			if now[key] = items[i].shown(g); now[key] != seen[key] {
				changed = append(changed, items[i])
			}
		}
		seen = now
		if len(changed) > 0 {
			if err := print(changed); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(g.of.every):
		}
	}
}

// newDescribeIncident returns the command describe incident.
func newDescribeIncident(env *command.Env) *cobra.Command {
	var agent remote.Flags
	c := &cobra.Command{
		Use: "incident ID", Aliases: []string{"incidents", "inc"}, Short: "Show an incident with its probes",
		Long: "Describe incident shows an incident with its probes, in the order in which they failed. ID is an ID of\n" +
			"get incidents, or a line of get incidents -o name. A pod called incident is pod/incident.\n\n" +
			"Exit code 0, 1 if there is no such incident, 3 if the agent does not respond, 64 wrong usage.",
		Example: "  prober describe incident 3fa07",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := find("incidents").withoutKindPrefix(args[0])
			return ask(cmd, env, &agent, func(ctx context.Context, c *client.Client) error {
				n, err := c.Incident(ctx, id)
				if err != nil {
					return remote.Failed(err)
				}
				return describeIncident(env.Stdout, &n)
			})
		},
	}
	c.ValidArgsFunction = complete(env, &agent, find("incidents"))
	agent.Add(c)
	return c
}

func describeIncident(out io.Writer, n *api.IncidentStatus) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	field := func(name, value string) { fmt.Fprintf(w, "%s:\t%s\n", name, line(value)) }
	field("Incident", n.ID)
	field("Cause", n.Cause)
	state := n.Word()
	if !n.End.IsZero() {
		state += " " + ago(n.End) + " ago"
	}
	field("State", state)
	field("Started", fmt.Sprintf("%s, %s ago", n.Start.Local().Format(time.RFC3339), ago(n.Start)))
	field("Lasted", lastedOf(n))
	field("Probes", fmt.Sprintf("%d, of which %d fail", n.Probes, n.Failing))
	field("First", partName(&n.First))
	if n.First.Target != "" {
		field("Target", n.First.Target)
	}
	field("Output", n.First.Cause)
	if err := w.Flush(); err != nil {
		return err
	}
	if len(n.Notes) > 0 {
		fmt.Fprintln(out, "\nNotes:")
		w = tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
		for _, note := range n.Notes {
			fmt.Fprintf(w, "  %s ago\t%s\t%s\n", ago(note.Time), line(note.Text), line(note.By))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "\nProbes, in the order in which they failed:")
	w = tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for i := range n.Parts {
		p := &n.Parts[i]
		state := p.State
		if !p.Until.IsZero() {
			state = "recovered " + ago(p.Until) + " ago"
		}
		if p.Dependent {
			state += ", depends on others"
		}
		if p.Maintenance {
			state += " (" + api.InMaintenance + ")"
		}
		fmt.Fprintf(w, "  +%s\t%s\t%s\t%s\n", p.Since.Sub(n.Start).Round(time.Second), line(partName(p)), line(state), line(p.Cause))
	}
	return w.Flush()
}

// incidentsText returns the number of open incidents that are not in maintenance, and the cause of the largest; "" if at most one probe fails,
// or if the agent is too old.
func incidentsText(ctx context.Context, c *client.Client, s *selection) string {
	all, err := listIncidents(ctx, c, &selection{Filter: client.Filter{Namespace: s.Namespace, State: api.IncidentOpen}, selector: s.selector})
	all = slices.DeleteFunc(all, func(i item) bool { return i.object.(*api.IncidentStatus).Maintenance })
	if err != nil || len(all) == 0 {
		return ""
	}
	largest := all[0].object.(*api.IncidentStatus)
	for _, i := range all {
		if n := i.object.(*api.IncidentStatus); n.Failing > largest.Failing {
			largest = n
		}
	}
	if len(all) == 1 && largest.Failing == 1 {
		return ""
	}
	text := command.Count(len(all), "incident") + ": "
	if len(all) > 1 {
		text = command.Count(len(all), "incident") + ", the largest: "
	}
	return text + fmt.Sprintf("%s (%s) for %s", line(largest.Cause), command.Count(largest.Failing, "probe"), ago(largest.Start))
}
