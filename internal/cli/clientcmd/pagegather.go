package clientcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/agent/maintenance"
	message "github.com/daeace23/prober/agent/notify/format"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/publicpage"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/targets"
)

const day = 24 * time.Hour

// announced is how long before its begin a maintenance window is published.
const announced = 14 * day

// published is a probe that the page shows, with what only selects, sorts and names it.
type published struct {
	publicpage.Probe
	config.ProbeFacts
	target *api.Target // nil for a probe of a pod
}

// probeKey identifies a probe of a report.
type probeKey struct{ namespace, pod, container, kind string }

// gather asks the agent for all that the page shows, and for the names that no probe has.
func (x *pageExport) gather(ctx context.Context, c *client.Client) (*publicpage.Page, *missing, error) {
	s, err := x.flags.someOf(x.args)
	if err != nil {
		return nil, nil, err
	}
	statuses, m, err := someProbes(ctx, c, s)
	if err != nil {
		return nil, nil, err
	}
	probes, err := x.named(ctx, c, statuses)
	if err != nil {
		return nil, nil, err
	}
	page := &publicpage.Page{Title: x.title, Link: x.link, URL: x.url, Grouped: x.groupBy != ""}
	byKey := make(map[probeKey]*published)
	for _, p := range probes {
		byKey[probeKey{p.Namespace, p.Pod, p.Container, p.Kind}] = p
	}
	if err := addReport(ctx, c, page, byKey, s.Namespace); err != nil {
		return nil, nil, err
	}
	if err := x.addIncidents(ctx, c, page, byKey); err != nil {
		return nil, nil, err
	}
	if err := x.addWindows(ctx, c, page, probes); err != nil {
		return nil, nil, err
	}
	for _, p := range probes {
		page.Probes = append(page.Probes, p.Probe)
	}
	page.Exported = time.Now()
	return page, m, nil
}

// named returns the probes with their names on the page.
func (x *pageExport) named(ctx context.Context, c *client.Client, statuses []api.ProbeStatus) ([]*published, error) {
	all, err := c.Targets(ctx, client.TargetFilter{})
	if err != nil {
		return nil, err
	}
	byPod := make(map[podName]*api.Target)
	for i := range all.Items {
		if t := &all.Items[i]; t.Pod != "" {
			byPod[podName{t.Namespace, t.Pod}] = t
		}
	}
	var list v1.PodList
	if err := c.Pods(ctx, &list); err != nil {
		return nil, err
	}
	labels := make(map[podName]map[string]string)
	for i := range list.Items {
		p := &list.Items[i]
		labels[podName{p.Namespace, p.Name}] = p.Labels
	}
	byKey := make(map[probeKey]*published)
	var probes []*published
	for i := range statuses {
		p := &statuses[i]
		of := podName{p.Namespace, p.Pod}
		key := probeKey{p.Namespace, p.Pod, p.Container, p.Kind}
		_, present := labels[of]
		_, grouped := labels[of][targets.GroupLabel]
		unknown := grouped && byPod[of] == nil && p.Container == pods.TargetContainer
		if !present || unknown || byKey[key] != nil {
			continue // the name of its pod may be an address
		}
		byKey[key] = x.published(p, labels[of], byPod[of])
		probes = append(probes, byKey[key])
	}
	x.setNames(probes)
	return probes, nil
}

// published returns a probe without its name.
func (x *pageExport) published(p *api.ProbeStatus, labels map[string]string, t *api.Target) *published {
	of := &published{target: t}
	of.ProbeFacts = config.ProbeFacts{Namespace: p.Namespace, Pod: p.Pod, Container: p.Container, Kind: p.Kind, Handler: p.Handler, Labels: labels}
	of.State, of.Word, of.Since = p.Counted(), p.Word(), p.StateSince
	if x.groupBy != "" {
		of.Probe.Group = of.ProbeFacts.Group(x.groupBy)
		if x.groupBy == "pod" && t != nil && !x.showTargets {
			of.Probe.Group = t.Group // the name of its pod has the address
		}
	}
	if x.showCauses {
		of.Cause = p.Cause
	}
	if x.showTargets {
		of.Target = p.Target
	}
	return of
}

// setNames gives each probe a name of its own. The name of a target is published only if it is not its address.
func (x *pageExport) setNames(probes []*published) {
	count := make(map[string]int)
	for _, p := range probes {
		p.Name = x.nameOf(p)
		count[p.Name]++
	}
	used := make(map[string]bool)
	for _, p := range probes {
		if count[p.Name] > 1 {
			p.Name = p.Namespace + "/" + p.Name
			if p.target != nil {
				p.Name = p.target.Group + "/" + p.target.Name
				if x.hidden(p) {
					p.Name = p.target.Group
				}
			}
		}
		base := p.Name
		for n := 2; used[p.Name]; n++ {
			p.Name = fmt.Sprintf("%s (%d)", base, n)
		}
		used[p.Name] = true
	}
}

// hidden reports whether the name of a probe is an address that is not published.
func (x *pageExport) hidden(p *published) bool {
	return p.target != nil && p.target.Name == p.target.Address && !x.showTargets
}

// nameOf returns the name of a probe, which others may have too.
func (x *pageExport) nameOf(p *published) string {
	entry := message.Probe{Container: p.Container, Kind: p.Kind, Handler: p.Handler}
	switch {
	case x.hidden(p):
		return p.target.Group // targets of a group get numbers: a hash would confirm a guessed address
	case p.target != nil:
		return p.target.Name
	case entry.IsTarget():
		return p.Pod
	default:
		return p.Pod + "/" + p.Container + " " + p.Kind
	}
}

// addReport adds uptimes.
func addReport(ctx context.Context, c *client.Client, page *publicpage.Page, byKey map[probeKey]*published, namespace string) error {
	report := func(f client.ReportFilter, each func(*published, *api.ReportItem)) (api.Report, error) {
		f.Namespace = namespace
		all, err := c.Report(ctx, f)
		for i := range all.Items {
			n := &all.Items[i]
			if p := byKey[probeKey{n.Namespace, n.Pod, n.Container, n.Kind}]; p != nil {
				each(p, n)
			}
		}
		return all, err
	}
	begin := dayOf(time.Now()).Add(-(publicpage.Days - 1) * day)
	head, err := report(client.ReportFilter{Since: stamp(begin)}, func(p *published, i *api.ReportItem) { p.Seconds = i.Seconds })
	if e, ok := errors.AsType[*client.StatusError](err); ok && e.Status == http.StatusNotFound {
		return &command.Exit{Code: command.ExitFailed, Err: err, Hint: "start the agent with --state-dir and, for 90 days, --history-retention 90d"}
	}
	if err != nil {
		return err
	}
	page.Since, page.Until = head.Since, head.Until
	midnight := dayOf(head.Until)
	page.Begin = midnight.Add(-(publicpage.Days - 1) * day)
	for _, p := range byKey {
		p.Days = make([]*float64, publicpage.Days)
	}
	_, err = report(client.ReportFilter{Since: stamp(page.Begin), Until: stamp(midnight), Parts: publicpage.Days - 1}, func(p *published, i *api.ReportItem) {
		copy(p.Days[:publicpage.Days-1], i.Parts)
	})
	if err != nil || head.Until.Sub(midnight) < time.Second {
		return err
	}
	_, err = report(client.ReportFilter{Since: stamp(midnight), Until: stamp(head.Until)}, func(p *published, i *api.ReportItem) {
		p.Days[publicpage.Days-1] = i.Uptime
	})
	return err
}

// addIncidents adds the incidents of published probes, with only these probes.
func (x *pageExport) addIncidents(ctx context.Context, c *client.Client, page *publicpage.Page, byKey map[probeKey]*published) error {
	all, err := c.Incidents(ctx, client.IncidentFilter{})
	if err != nil {
		return err
	}
	for i := range all {
		n := &all[i]
		shown := publicpage.Incident{ID: n.ID}
		for k := range n.Parts {
			part := &n.Parts[k]
			p := byKey[probeKey{part.Namespace, part.Pod, part.Container, part.Kind}]
			if p == nil {
				continue
			}
			next := publicpage.Part{Name: p.Name, Since: part.Since, Until: part.Until}
			if x.showCauses {
				next.Cause = part.Cause
			}
			shown.Parts = append(shown.Parts, next)
		}
		for _, note := range n.Notes {
			if x.showNotes {
				shown.Notes = append(shown.Notes, publicpage.Note{Time: note.Time, Text: note.Text})
			}
		}
		if x.showCauses && len(shown.Parts) == len(n.Parts) { // otherwise it may be about probes that are not public
			shown.Cause = n.Cause
		}
		if len(shown.Parts) > 0 {
			page.Incidents = append(page.Incidents, shown)
		}
	}
	return nil
}

// dayOf returns the begin of the day of t in UTC.
func dayOf(t time.Time) time.Time { return t.UTC().Truncate(day) }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// addWindows adds the maintenance windows of published probes that are active or begin soon.
func (x *pageExport) addWindows(ctx context.Context, c *client.Client, page *publicpage.Page, probes []*published) error {
	windows, err := c.Maintenance(ctx)
	if err != nil {
		return err
	}
	for i := range windows {
		w := &windows[i]
		if len(w.Receivers) > 0 || w.From.IsZero() || !w.Active && w.From.Sub(page.Until) > announced {
			continue
		}
		match, err := maintenance.ParseMatch(w.Match)
		if err != nil {
			return err
		}
		shown := publicpage.Window{From: w.From, Until: w.Until, Active: w.Active}
		if x.showReasons {
			shown.Reason = w.Reason
		}
		for _, p := range probes {
			if config.MatchesAny(match, &p.ProbeFacts) {
				shown.Names = append(shown.Names, p.Name)
			}
		}
		if len(shown.Names) > 0 {
			page.Windows = append(page.Windows, shown)
		}
	}
	slices.SortFunc(page.Windows, func(a, b publicpage.Window) int { return cmp.Or(a.From.Compare(b.From), a.Until.Compare(b.Until)) })
	return nil
}
