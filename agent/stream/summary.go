package stream

import (
	"cmp"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/pods"
)

// maxText is the limit of a text in a summary, in bytes.
const maxText = 200

// summaryOf returns the summary of a probe.
func summaryOf(p *api.ProbeStatus) *api.ProbeSummary {
	s := &api.ProbeSummary{
		Namespace: p.Namespace, Pod: p.Pod, UID: p.UID, Container: p.Container, Kind: p.Kind, Handler: p.Handler, Target: p.Target,
		Result: p.Result, Run: p.Run, OnHold: p.OnHold, Paused: p.Paused, Gate: p.Gate, CurrentState: p.CurrentState,
		Maintenance: p.Maintenance,
	}
	s.Cause = oneLine(p.Cause)
	if last := p.Last; last != nil {
		s.Last = &api.TickSummary{
			Result: last.Result, Text: oneLine(cmp.Or(last.Error, last.Output)), Time: last.Time, DurationSeconds: last.DurationSeconds,
		}
		if s.Cause == s.Last.Text {
			s.Cause = ""
		}
	}
	return s
}

// oneLine returns the beginning of text as one line. A target may have written text.
func oneLine(text string) string {
	return clip.Text(explain.OneLine(clip.Bytes(strings.TrimSpace(text), 2*maxText)), maxText)
}

func summaryOfPod(c *pods.Change) *api.PodSummary {
	p := c.Pod
	s := &api.PodSummary{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Labels: p.Labels, Phase: string(p.Status.Phase), Created: p.CreationTimestamp.UTC(), Removed: c.Removed,
		Reason: oneLine(strings.TrimSpace(p.Status.Reason + " " + p.Status.Message)),
	}
	for _, condition := range p.Status.Conditions {
		if condition.Type == v1.PodReady {
			s.Ready = condition.Status == v1.ConditionTrue
		}
	}
	for i := range p.Status.InitContainerStatuses {
		s.Containers = append(s.Containers, summaryOfContainer(&p.Status.InitContainerStatuses[i], true))
	}
	for i := range p.Status.ContainerStatuses {
		s.Containers = append(s.Containers, summaryOfContainer(&p.Status.ContainerStatuses[i], false))
	}
	return s
}

func summaryOfContainer(c *v1.ContainerStatus, init bool) api.ContainerSummary {
	s := api.ContainerSummary{Name: c.Name, Init: init, Ready: c.Ready, Restarts: int(c.RestartCount), State: "waiting"}
	switch {
	case c.State.Running != nil:
		s.State, s.Since = "running", c.State.Running.StartedAt.UTC()
	case c.State.Terminated != nil:
		s.State, s.Since = "terminated", c.State.Terminated.FinishedAt.UTC()
		s.Reason = exitText(c.State.Terminated)
	case c.State.Waiting != nil:
		s.Reason = oneLine(strings.TrimSpace(c.State.Waiting.Reason + " " + c.State.Waiting.Message))
	}
	if last := c.LastTerminationState.Terminated; last != nil {
		s.LastEnd, s.LastReason = last.FinishedAt.UTC(), exitText(last)
	}
	return s
}

// exitText returns a description of how a container ended.
func exitText(t *v1.ContainerStateTerminated) string {
	text := fmt.Sprintf("%s, exit code %d", cmp.Or(t.Reason, "Ended"), t.ExitCode)
	if t.Message != "" {
		text += ": " + t.Message
	}
	return oneLine(text)
}
