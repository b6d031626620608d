package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/metrics/agentmetrics"
	"github.com/daeace23/prober/pods"
)

// troubleChecks returns a warning for each problem of the source.
func (a *Agent) troubleChecks() (checks []healthCheck) {
	if a.source.Troubles == nil {
		return nil
	}
	for _, t := range a.source.Troubles() {
		checks = append(checks, healthCheck{t.Name, "!", strings.ReplaceAll(t.Text, "\n", "; ")})
	}
	return checks
}

// registerNode registers the node metrics of the source, if it has any.
func (a *Agent) registerNode() error {
	if a.source.NodeCounts == nil {
		return nil
	}
	return agentmetrics.RegisterNode(a.registry, a.source.NodeCounts)
}

// targets returns the targets of the source; empty if it has none.
func (a *Agent) targets() pods.Targets {
	if a.source.Targets == nil {
		return pods.Targets{}
	}
	return a.source.Targets()
}

// whyNoTarget returns a message that explains why the pod of a target does not exist; "" if no known target
// has this pod.
func (a *Agent) whyNoTarget(namespace, pod string) string {
	all := a.targets().Items
	for i := len(all) - 1; i >= 0; i-- { // targets that are gone are last
		t := &all[i]
		if t.Namespace != namespace || t.Pod != pod || t.State == pods.TargetProbed {
			continue
		}
		since := ""
		if !t.Since.IsZero() {
			since = " since " + t.Since.Format(time.RFC3339)
		}
		return fmt.Sprintf("the target %q of group %s is %s%s: %s", t.Name, t.Group, t.State, since, t.Reason)
	}
	return ""
}

// targetChecks returns a warning for each source of targets that cannot be refreshed.
func (a *Agent) targetChecks() (checks []healthCheck) {
	for _, s := range a.targets().Sources {
		if s.Err != nil {
			checks = append(checks, healthCheck{"targets", "!", "group " + s.Group + ": " + s.Source + " cannot be refreshed, the last good list is kept: " + joined.Line(s.Err)})
		}
	}
	return checks
}

// countTargets returns the targets for the metrics.
func (a *Agent) countTargets() metrics.Targets {
	all := a.targets()
	counts := metrics.Targets{Probed: func(yield func(metrics.Target) bool) {
		for i := range all.Items {
			if t := &all.Items[i]; t.State == pods.TargetProbed && !yield(a.targetMetric(t)) {
				return
			}
		}
	}}
	for _, s := range all.Sources {
		counts.Sources = append(counts.Sources, metrics.TargetSource{
			Group: s.Group, Source: s.Source, Failures: s.Failures, Refreshed: s.Refreshed,
			States: map[string]int{pods.TargetProbed: s.Probed, pods.TargetDropped: s.Dropped},
		})
	}
	return counts
}

// targetMetric returns what the metrics have of a target.
func (a *Agent) targetMetric(t *pods.Target) metrics.Target {
	m := metrics.Target{Namespace: t.Namespace, Pod: t.Pod, Container: pods.TargetContainer, Group: t.Group, Address: t.Address}
	if chosen := a.targetLabels.Load(); chosen != nil {
		for _, l := range *chosen {
			if value, ok := t.Labels[l.Name]; ok {
				m.Labels = append(m.Labels, metrics.TargetLabel{Name: l.Metric, Value: value})
			}
		}
	}
	return m
}

// podHost returns the functions that the agent offers its source of pods.
func (a *Agent) podHost() pods.Host {
	return pods.Host{
		Logger: a.log, Recorder: a.events, Output: a.stdout, PollInterval: a.cfg.PollInterval,
		Mark: a.cfg.mark, RunsPrograms: a.handlers.RunsPrograms,
		Begin: a.beginPods, Check: a.checkPod, Refused: a.podsRefused, Applied: a.podsApplied,
		RequestReload: func(cause string) { a.podsTrigger.request(cause, false) },
		Restarted:     a.restarted,
		BindCheck:     a.bindCheck,
	}
}

// saving returns whether the source can save its state; zero if it saves none.
func (a *Agent) saving() pods.Saving {
	if a.source.Saving == nil {
		return pods.Saving{}
	}
	return a.source.Saving()
}

// restarted counts and logs a restart of a container.
func (a *Agent) restarted(r pods.Restart) {
	a.metrics.Restarted(r.Cause, r.Namespace, r.Pod, r.Container)
	attrs := []any{"namespace", r.Namespace, "pod", r.Pod, "container", r.Container, "cause", r.Cause, "count", r.Count, "exitCode", r.ExitCode}
	if r.Signal != "" {
		attrs = append(attrs, "signal", r.Signal)
	}
	a.log.Warn("container restarted", attrs...)
}

// containerRunner runs the commands of exec probes in the containers of the source. It has a pointer, as the
// source is created after the handlers.
type containerRunner struct{ source *pods.Source }

var _ builtin.CommandRunner = containerRunner{}

// RunInContainer implements [builtin.CommandRunner].
func (r containerRunner) RunInContainer(ctx context.Context, containerID string, cmd []string, timeout time.Duration) ([]byte, error) {
	if r.source.RunInContainer == nil {
		return nil, errors.New("the source of pods cannot run commands in containers")
	}
	return r.source.RunInContainer(ctx, containerID, cmd, timeout)
}
