package simulatecmd

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/whatif"
	"github.com/daeace23/prober/probe"
)

// name identifies a probe.
type name struct{ namespace, pod, container, kind string }

// inventory is what the agent probes now.
type inventory struct {
	probes  []api.ProbeStatus
	specs   map[name]whatif.Thresholds
	targets map[name]*api.Target         // by namespace and pod
	labels  map[string]map[string]string // by NAMESPACE/POD
}

func gather(ctx context.Context, c *client.Client) (*inventory, error) {
	all := &inventory{specs: make(map[name]whatif.Thresholds), targets: make(map[name]*api.Target), labels: make(map[string]map[string]string)}
	var err error
	if all.probes, err = c.Probes(ctx, client.Filter{}); err != nil {
		return nil, err
	}
	list, err := c.Targets(ctx, client.TargetFilter{})
	if err != nil {
		return nil, err
	}
	if err := all.addLabels(ctx, c, list.Items); err != nil {
		return nil, err
	}
	for i := range all.probes {
		p := &all.probes[i]
		if period, err := time.ParseDuration(p.Spec.Period); err == nil && period > 0 {
			all.specs[name{p.Namespace, p.Pod, p.Container, p.Kind}] = whatif.Thresholds{Period: period, Success: p.Spec.SuccessThreshold, Failure: p.Spec.FailureThreshold}
		}
	}
	for i := range list.Items {
		t := &list.Items[i]
		all.targets[name{namespace: t.Namespace, pod: t.Pod}] = t
	}
	return all, nil
}

// addLabels adds the present labels of pods, and of targets, which may have labels that their pods have not.
func (all *inventory) addLabels(ctx context.Context, c *client.Client, targets []api.Target) error {
	var pods struct {
		Items []struct {
			Metadata struct {
				Namespace, Name string
				Labels          map[string]string
			}
		}
	}
	if err := c.Pods(ctx, &pods); err != nil {
		return err
	}
	add := func(pod string, labels map[string]string) {
		if all.labels[pod] == nil {
			all.labels[pod] = make(map[string]string)
		}
		maps.Copy(all.labels[pod], labels)
	}
	for _, p := range pods.Items {
		add(p.Metadata.Namespace+"/"+p.Metadata.Name, p.Metadata.Labels)
	}
	for i := range targets {
		if t := &targets[i]; t.Pod != "" {
			add(t.Namespace+"/"+t.Pod, t.Labels)
		}
	}
	return nil
}

// facts yields what selectors compare of the probes.
func (all *inventory) facts() iter.Seq[*config.ProbeFacts] {
	return func(yield func(*config.ProbeFacts) bool) {
		for i := range all.probes {
			p := &all.probes[i]
			labels := all.labels[p.Namespace+"/"+p.Pod]
			if !yield(&config.ProbeFacts{Namespace: p.Namespace, Pod: p.Pod, Container: p.Container, Kind: p.Kind, Handler: p.Handler, Labels: labels}) {
				return
			}
		}
	}
}

// with returns the changes that the thresholds of a plan would have made of the results. Those of probes that are
// gone, or not in one of its groups, stay.
func (all *inventory) with(p *plan, changes []api.StateChange) (list []api.StateChange) {
	var order []name
	byProbe := make(map[name][]api.StateChange)
	for _, c := range changes {
		of := name{c.Namespace, c.Pod, c.Container, c.Kind}
		if byProbe[of] == nil {
			order = append(order, of)
		}
		byProbe[of] = append(byProbe[of], c)
	}
	for _, of := range order {
		mine := byProbe[of]
		slices.SortStableFunc(mine, func(a, b api.StateChange) int { return a.Time.Compare(b.Time) })
		if before, now, ok := all.thresholds(p, of); ok {
			mine = whatif.Apply(mine, before, now)
		}
		list = append(list, mine...)
	}
	return list
}

// thresholds returns the thresholds of a probe: the present ones, and the ones in a plan. ok is false if one of them is unknown.
func (all *inventory) thresholds(p *plan, of name) (before, now whatif.Thresholds, ok bool) {
	t := all.targets[name{namespace: of.namespace, pod: of.pod}]
	if t == nil {
		return before, now, false
	}
	spec, planned := p.specs[t.Group]
	before, known := all.specs[of]
	return before, thresholdsOf(&spec), planned && known
}

// loosened returns the groups whose probes would have made changes that the history does not have.
func (all *inventory) loosened(p *plan) (groups []string) {
	for of := range all.specs {
		before, now, ok := all.thresholds(p, of)
		if ok && (now.Failure < before.Failure || now.Success < before.Success || now.Period < before.Period) {
			groups = append(groups, all.targets[name{namespace: of.namespace, pod: of.pod}].Group)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

func thresholdsOf(s *probe.Spec) whatif.Thresholds {
	return whatif.Thresholds{Period: s.Period, Success: s.SuccessThreshold, Failure: s.FailureThreshold}
}

// madeUp returns the changes of a made-up failure of the probes that the patterns of --outage name: it begins an
// hour after the start, and ends a day before the end, for repeated messages.
func (s *simulation) madeUp(all *inventory) (head api.StateChanges, changes []api.StateChange, err error) {
	head.Since = time.Now().Truncate(time.Second)
	began := head.Since.Add(time.Hour)
	ended := began.Add(s.lasts)
	head.Until = ended.Add(24 * time.Hour)
	found := make(map[string]bool)
	for i := range all.probes {
		p := &all.probes[i]
		fails := false
		for _, pattern := range s.outages {
			ok, err := all.matches(p, pattern)
			if err != nil {
				return head, nil, command.Usage("", "--outage %q: %w", pattern, err)
			}
			found[pattern] = found[pattern] || ok
			fails = fails || ok
		}
		t := all.specs[name{p.Namespace, p.Pod, p.Container, p.Kind}]
		add := func(at time.Time, from, to, text string) {
			changes = append(changes, api.StateChange{
				Namespace: p.Namespace, Pod: p.Pod, Container: p.Container, Kind: p.Kind, Handler: p.Handler,
				Transition: api.Transition{Time: at, From: from, To: to, Text: text},
			})
		}
		add(head.Since, "absent", "success", "")
		if fails {
			add(began.Add(time.Duration(t.Failure-1)*t.Period), "success", "failure", "made-up failure")
			add(ended.Add(time.Duration(t.Success-1)*t.Period), "failure", "success", "")
		}
	}
	for _, pattern := range s.outages {
		if !found[pattern] {
			return head, nil, command.Failed(fmt.Errorf("--outage %q: the agent has no such probe", pattern))
		}
	}
	return head, changes, nil
}

// matches reports whether a pattern of --outage matches the pod of a probe, with or without its namespace, or its
// target's name, address or group.
func (all *inventory) matches(p *api.ProbeStatus, pattern string) (bool, error) {
	texts := []string{p.Pod, p.Namespace + "/" + p.Pod}
	if t := all.targets[name{namespace: p.Namespace, pod: p.Pod}]; t != nil {
		texts = append(texts, t.Name, t.Address, t.Group)
	}
	for _, text := range texts {
		if ok, err := path.Match(pattern, text); ok || err != nil {
			return ok, err
		}
		if pattern == text {
			return true, nil
		}
	}
	return false, nil
}
