package clientcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/pods/targets"
)

// resources are the kinds of objects, in the order of the help.
func resources() []*resource {
	return []*resource{
		{
			name: "probes", aliases: []string{"probe"}, short: "Show probes with their states", args: "[NAME]... [KIND]",
			example: "  prober get probes --state failure\n  prober get probes shop/web readiness -o wide\n  prober get probes 'shop-*' cart -l tier!=cache\n  prober get probes -w",
			columns: []column{
				{head: "POD"}, {head: "CONTAINER"}, {head: "KIND"}, {head: "HANDLER"}, {head: "STATE"}, {head: "LAST"}, {head: "RUN"}, {head: "AGE"},
				{"NEXT", true}, {"PERIOD", true}, {"TOOK", true}, {"GATE", true}, {"TARGET", true}, {"OUTPUT", true},
			},
			namespaced: true, labelled: true, event: "probe", list: listProbes, decode: decodeProbe,
		},
		{
			name: "pods", aliases: []string{"pod", "po"}, short: "Show pods with their status", args: "[POD]...",
			example: "  prober get pods\n  prober get pods -l app=shop -o name\n  prober get pods shop -o jsonpath='{.items[0].status.podIP}'",
			columns: []column{
				{head: "NAME"}, {head: "READY"}, {head: "STATUS"}, {head: "RESTARTS"}, {head: "AGE"}, {"IP", true},
			},
			namespaced: true, labelled: true, event: "pod", head: listHead{"PodList", "v1"}, list: listPods, decode: decodePod,
		},
		{
			name: "events", aliases: []string{"event", "ev"}, short: "Show the newest events, the last one at the end", args: "[POD]...",
			example: "  prober get events\n  prober get events shop -w",
			columns: []column{
				{head: "LAST SEEN"}, {head: "TYPE"}, {head: "REASON"}, {head: "OBJECT"}, {"COUNT", true}, {"TARGET", true}, {head: "MESSAGE"},
			},
			namespaced: true, labelled: true, event: "event", head: listHead{"EventList", "v1"}, list: listEvents, decode: decodeEvent,
		},
		targetResource(), endpointResource(), incidentResource(), certificateResource(), sloResource(),
		{
			name: "plugins", aliases: []string{"plugin"}, short: "Show plugins and their running versions", args: "[NAME]...",
			example: "  prober get plugins -o wide",
			columns: []column{
				{head: "NAME"}, {head: "STATE"}, {head: "VERSION"}, {head: "RUNTIME"}, {head: "TRUST"}, {head: "PROBES"}, {head: "CHANGED"},
				{"GENERATION", true}, {"DIGEST", true}, {head: "ERROR"},
			},
			list: listPlugins,
		},
		{
			name: "notifications", aliases: []string{"notification", "receivers"}, short: "Show receivers of notifications and their states", args: "[RECEIVER]...",
			example: "  prober get notifications -o wide\n  prober get notifications -l team=shop -o json\n  prober get notifications ops -o jsonpath='{.items[0].alerts[*].pod}'",
			columns: []column{
				{head: "NAME"}, {head: "TYPE"}, {head: "STATE"}, {head: "OPEN"}, {head: "PENDING"}, {head: "SENT"},
				{"DELIVERED", true}, {"FAILED", true}, {"REFUSED", true}, {"DROPPED", true}, {"ANSWER", true}, {head: "ERROR"},
			},
			labelled: true, list: listNotifications,
		},
	}
}

func targetResource() *resource {
	return &resource{
		name: "targets", aliases: []string{"target"}, short: "Show targets of prober.yaml, and why some are not probed", args: "[POD|NAME|ADDRESS]...",
		example: "  prober get targets --state dropped\n  prober get targets 10.0.0.7:8080 -o wide\n  prober get targets --group shop-web -o name",
		columns: []column{
			{head: "GROUP"}, {head: "NAME"}, {head: "ADDRESS"}, {head: "STATE"}, {head: "POD"}, {"SOURCE", true}, {"LABELS", true}, {head: "REASON"},
		},
		labelled: true, list: listTargets,
	}
}

func endpointResource() *resource {
	return &resource{
		name: "endpoints", aliases: []string{"endpoint", "ep"}, short: "Show endpoints of prober.yaml with their checks, and pushes", args: "[NAME]...",
		example: "  prober get endpoints --state failure\n  prober get endpoints shop -o wide\n  prober get endpoints --type push",
		columns: []column{
			{head: "NAME"}, {head: "TYPE"}, {head: "STATE"}, {head: "AGE"}, {head: "PASSING"}, {"RULE", true}, {"DEPENDS ON", true}, {"REPORT", true}, {"DUE", true}, {head: "REASON"},
		},
		labelled: true, event: "probe", list: listEndpoints, fetch: fetchEndpoint,
	}
}

// find returns the resource of a name or an alias.
func find(name string) *resource {
	all := resources()
	i := slices.IndexFunc(all, func(r *resource) bool { return r.name == name || slices.Contains(r.aliases, name) })
	if i < 0 {
		return nil
	}
	return all[i]
}

func listProbes(ctx context.Context, c *client.Client, s *selection) ([]item, error) {
	probes, err := s.probes(ctx, c)
	items := make([]item, len(probes))
	for i := range probes {
		items[i] = probeItem(&probes[i])
	}
	return items, err
}

func probeItem(p *api.ProbeStatus) item {
	last, age, took, output := "-", "-", "-", ""
	if p.Last != nil {
		last, age = p.Last.Result, ago(p.Last.Time)
		took = time.Duration(p.Last.DurationSeconds * float64(time.Second)).Round(10 * time.Microsecond).String()
		output = cmp.Or(p.Last.Error, p.Last.Output)
	}
	next := "-"
	if !p.Next.IsZero() {
		next = max(time.Until(p.Next), 0).Round(100 * time.Millisecond).String()
	}
	return item{
		name: strings.Join([]string{p.Pod, p.Container, p.Kind}, "/"), namespace: p.Namespace, pod: p.Pod, object: p,
		cells: []string{
			p.Pod, p.Container, p.Kind, p.Handler, p.Word(), last, fmt.Sprint(p.Run), age, next, p.Spec.Period, took, p.Activity(time.RFC3339, time.Local), p.Target, output,
		},
	}
}

func decodeProbe(data []byte) (item, error) {
	var p struct {
		api.ProbeStatus
		Removed bool `json:"removed"`
	}
	err := json.Unmarshal(data, &p)
	i := probeItem(&p.ProbeStatus)
	i.removed = p.Removed
	return i, err
}

func listPods(ctx context.Context, c *client.Client, s *selection) ([]item, error) {
	pods, err := s.pods(ctx, c)
	items := make([]item, len(pods))
	for i := range pods {
		items[i] = podItem(&pods[i])
	}
	return items, err
}

func podItem(p *v1.Pod) item {
	ready, restarts := 0, 0
	for i := range p.Status.ContainerStatuses {
		if p.Status.ContainerStatuses[i].Ready {
			ready++
		}
		restarts += int(p.Status.ContainerStatuses[i].RestartCount)
	}
	since := p.CreationTimestamp.Time
	if p.Status.StartTime != nil {
		since = p.Status.StartTime.Time
	}
	return item{
		name: p.Name, namespace: p.Namespace, pod: p.Name, object: p,
		cells: []string{
			p.Name, fmt.Sprintf("%d/%d", ready, len(p.Spec.Containers)), podState(p), fmt.Sprint(restarts), ago(since), p.Status.PodIP,
		},
	}
}

func decodePod(data []byte) (item, error) {
	var p struct {
		v1.Pod
		Removed bool `json:"removed"`
	}
	err := json.Unmarshal(data, &p)
	i := podItem(&p.Pod)
	i.removed = p.Removed
	return i, err
}

func listEvents(ctx context.Context, c *client.Client, s *selection) ([]item, error) {
	events, err := s.events(ctx, c)
	items := make([]item, len(events))
	for i := range events {
		items[i] = eventItem(&events[i])
	}
	return items, err
}

func eventItem(e *v1.Event) item {
	of := &e.InvolvedObject
	object := strings.ToLower(of.Kind) + "/" + of.Name
	if _, container, ok := strings.Cut(of.FieldPath, "{"); ok {
		object += "/" + strings.TrimSuffix(container, "}")
	}
	return item{
		name: e.Name, also: []string{e.Name}, namespace: of.Namespace, pod: of.Name, object: e, recurred: fmt.Sprint(e.Count, e.LastTimestamp.UnixNano()),
		cells: []string{ago(e.LastTimestamp.Time), e.Type, e.Reason, object, fmt.Sprint(max(e.Count, 1)), e.Annotations["prober.dev/target"], e.Message},
	}
}

func decodeEvent(data []byte) (item, error) {
	var e v1.Event
	err := json.Unmarshal(data, &e)
	return eventItem(&e), err
}

func listTargets(ctx context.Context, c *client.Client, s *selection) ([]item, error) {
	all, err := c.Targets(ctx, s.targets)
	for _, source := range all.Sources {
		if source.Error != "" {
			s.warnings = append(s.warnings, fmt.Sprintf("group %s: %s cannot be refreshed, the last good list is kept: %s", source.Group, source.Source, source.Error))
		}
	}
	var items []item
	for i := range all.Items {
		t := &all.Items[i]
		names := targetNames(t)
		if !s.selectsName(names...) || !s.selectsLabels(t) {
			continue
		}
		reason := t.Reason
		if !t.Since.IsZero() {
			reason = ago(t.Since) + " ago: " + reason
		}
		items = append(items, item{
			name: cmp.Or(t.Pod, t.Group+"/"+t.Name), also: names, object: t,
			cells: []string{t.Group, t.Name, t.Address, t.State, t.Pod, t.Source, labels.FormatLabels(t.Labels), reason},
		})
	}
	return items, err
}

// selectsLabels reports whether the selector matches the labels of a target and of its pod.
func (s *selection) selectsLabels(t *api.Target) bool {
	if s.selector == nil {
		return true
	}
	set := labels.Set{targets.GroupLabel: t.Group}
	maps.Copy(set, t.Labels)
	return s.selector.Matches(set)
}

func listEndpoints(ctx context.Context, c *client.Client, s *selection) ([]item, error) {
	if err := s.match(ctx, c); err != nil {
		return nil, err
	}
	all, err := c.Endpoints(ctx, s.endpoints)
	var items []item
	for i := range all {
		if it := endpointItem(&all[i]); s.hasPod(it.namespace, it.pod) && s.selectsName(append(it.also, it.name)...) {
			items = append(items, it)
		}
	}
	return items, err
}

func endpointItem(e *api.Endpoint) item {
	passing, report, due := "-", "-", "-"
	if e.Type == api.TypeEndpoint {
		passing = fmt.Sprintf("%d/%d", e.Passing(), len(e.Checks)+len(e.Missing))
	}
	if e.Push != nil && !e.Push.LastReport.IsZero() {
		report = ago(e.Push.LastReport)
	}
	if e.Push != nil && !e.Push.Due.IsZero() {
		due = max(time.Until(e.Push.Due), 0).Round(time.Second).String()
	}
	age := "-"
	if !e.StateSince.IsZero() {
		age = ago(e.StateSince)
	}
	return item{
		name: e.Name, also: []string{e.Namespace + "/" + e.Name}, namespace: e.Namespace, pod: e.Name, object: e,
		cells: []string{e.Name, e.Type, e.Word(), age, passing, e.Rule, strings.Join(e.DependsOn, ", "), report, due, e.Cause},
	}
}

// fetchEndpoint returns the endpoint or the push of a probe that has changed; nil for other probes, and for
// an endpoint that the flags do not select.
func fetchEndpoint(ctx context.Context, c *client.Client, s *selection, data []byte) (*item, error) {
	changed, err := decodeProbe(data)
	if err != nil {
		return nil, err
	}
	p := changed.object.(*api.ProbeStatus)
	if p.Handler != p.Container || p.Handler != api.TypeEndpoint && p.Handler != api.TypePush {
		return nil, nil
	}
	removed := endpointItem(&api.Endpoint{Namespace: p.Namespace, Name: p.Pod, Type: p.Handler})
	removed.removed = true
	if changed.removed {
		return &removed, nil
	}
	f := s.endpoints
	f.Namespace, f.Name, f.Type = p.Namespace, p.Pod, p.Handler
	all, err := c.Endpoints(ctx, f)
	if err != nil || len(all) == 0 || s.endpoints.Type != "" && s.endpoints.Type != p.Handler {
		return nil, err
	}
	i := endpointItem(&all[0])
	return &i, nil
}

func listPlugins(ctx context.Context, c *client.Client, s *selection) ([]item, error) {
	plugins, err := c.Plugins(ctx)
	var items []item
	for i := range plugins {
		p := &plugins[i]
		if !s.selectsName(p.Name) {
			continue
		}
		items = append(items, item{
			name: p.Name, object: p,
			cells: []string{
				p.Name, p.State, p.Version, p.Runtime, p.Trust, fmt.Sprint(p.Probes), ago(p.Changed), fmt.Sprint(p.Generation), p.Digest, p.Error,
			},
		})
	}
	return items, err
}

func listNotifications(ctx context.Context, c *client.Client, s *selection) ([]item, error) {
	receivers, err := c.Notifications(ctx)
	var items []item
	for i := range receivers {
		r := &receivers[i]
		if !s.selectsName(r.Name) || !s.selectAlerts(r) {
			continue
		}
		state := r.State
		if !r.QuietUntil.IsZero() {
			state += ", quiet"
		}
		if r.Maintenance != nil {
			state += ", " + api.InMaintenance
		}
		items = append(items, item{
			name: r.Name, object: r,
			cells: []string{
				r.Name, r.Type, state, fmt.Sprint(r.Open), fmt.Sprint(r.Pending), ago(r.LastSent), fmt.Sprint(r.Delivered), fmt.Sprint(r.Failed),
				fmt.Sprint(r.Refused), fmt.Sprint(r.Dropped), r.Answer, r.Error,
			},
		})
	}
	return items, err
}

// selectAlerts reduces a receiver to its incidents in the namespace and with the labels. It reports whether one is
// left, or all are selected.
func (s *selection) selectAlerts(r *api.Receiver) bool {
	if s.Namespace == "" && s.selector == nil {
		return true
	}
	r.Open, r.Pending = 0, 0
	r.Alerts = slices.DeleteFunc(r.Alerts, func(a api.Alert) bool {
		return s.Namespace != "" && s.Namespace != a.Namespace || s.selector != nil && !s.selector.Matches(labels.Set(a.Labels))
	})
	for i := range r.Alerts {
		a := &r.Alerts[i]
		if a.Told != "success" {
			r.Open++
		}
		if a.Told != a.State && !a.Maintenance {
			r.Pending++
		}
	}
	return len(r.Alerts) > 0
}
