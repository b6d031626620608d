package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/daeace23/prober/probe"
)

// backlog is a custom handler of this agent. It checks the number of jobs in a container's queue, which
// only the agent knows. Its config has the threshold.
type backlog struct {
	waiting func(containerID string) (jobs int, ok bool)
}

var _ probe.Preparer = (*backlog)(nil)

// Prepare implements [probe.Preparer].
func (h *backlog) Prepare(config []byte, _ probe.Target) (probe.Handler, error) {
	var c struct {
		Warn int `json:"warn"`
		Fail int `json:"fail"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, err
	}
	if c.Fail <= 0 || c.Warn > c.Fail {
		return nil, fmt.Errorf("fail: must be above 0 and not below warn")
	}
	return probe.HandlerFunc(func(_ context.Context, req probe.Request) (probe.Outcome, error) {
		jobs, ok := h.waiting(req.ContainerID)
		if !ok {
			return probe.Outcome{}, fmt.Errorf("container %s has no queue", req.ContainerID)
		}
		o := probe.Outcome{Result: probe.Success, Output: fmt.Sprintf("%d jobs wait", jobs)}
		o.Metrics = []probe.Metric{{Name: "jobs_waiting", Value: float64(jobs)}}
		switch {
		case jobs > c.Fail:
			o.Result = probe.Failure
		case jobs > c.Warn:
			o.Result = probe.Warning
		}
		return o, nil
	}), nil
}

// Probe implements [probe.Handler]. A probe needs a config, so this is always an error.
func (h *backlog) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	return probe.Outcome{}, fmt.Errorf("backlog needs a config")
}
