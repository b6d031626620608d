package api

import (
	"encoding/json"
	"time"
)

// ProbeList is the response of /api/v1/probes.
type ProbeList struct {
	Metadata ListMeta      `json:"metadata,omitzero"`
	Items    []ProbeStatus `json:"items"`
}

// ProbeStatus is the status of a probe.
type ProbeStatus struct {
	Namespace   string `json:"namespace"`
	Pod         string `json:"pod"`
	UID         string `json:"uid"`
	Container   string `json:"container"`
	ContainerID string `json:"containerID"`
	Kind        string `json:"kind"` // "liveness", "readiness" or "startup"
	Handler     string `json:"handler"`
	// Target is what the probe probes, for people, such as "GET https://shop.example/healthz" and "exec
	// pg_isready -q": one line of at most 256 bytes, without secrets of the config.
	Target string `json:"target,omitzero"`
	Result string `json:"result"` // decided: "success", "failure" or "unknown"
	Run    int    `json:"run"`    // consecutive equal results
	OnHold bool   `json:"onHold"`
	Paused bool   `json:"paused"`
	// Gate is why the probe makes no attempts, such as "initial delay, 4s left"; "" if it makes attempts.
	Gate    string       `json:"gate,omitzero"`
	Spec    SpecStatus   `json:"spec"`
	Last    *TickStatus  `json:"last"` // nil before the first tick
	Next    time.Time    `json:"next,omitzero"`
	History []TickStatus `json:"history"` // newest first; empty if no history is kept
	CurrentState
	Pause
	// Maintenance is the maintenance window of the probe; absent if it is in none.
	Maintenance *Maintenance `json:"maintenance,omitzero"`
}

// SpecStatus is a probe's spec. Durations are in Go's notation.
type SpecStatus struct {
	InitialDelay     string `json:"initialDelay"`
	Period           string `json:"period"`
	Timeout          string `json:"timeout"`
	SuccessThreshold int    `json:"successThreshold"`
	FailureThreshold int    `json:"failureThreshold"`
	// UnhealthyPeriod replaces Period while the result is not success, or may change; absent without one.
	UnhealthyPeriod string `json:"unhealthyPeriod,omitzero"`
	// Jitter is the largest share of the period by which it is made longer or shorter, from 0 to 1.
	Jitter float64 `json:"jitter,omitzero"`
	// InitialState is the state before the first decision, "success" or "failure"; absent if it is unknown.
	InitialState string `json:"initialState,omitzero"`
}

// TickStatus is the result of one tick of a probe.
type TickStatus struct {
	Result          string    `json:"result"` // "success", "warning", "failure" or "unknown"
	Output          string    `json:"output"`
	Error           string    `json:"error"`
	Attempts        int       `json:"attempts"`
	Time            time.Time `json:"time"`
	DurationSeconds float64   `json:"durationSeconds"`
	Metrics         []Metric  `json:"metrics"` // of the last tick only
	// Details is a JSON object from the handler, for programs. Only the last tick has it.
	Details json.RawMessage `json:"details,omitzero"`
}

// Metric is a value that a handler measured.
type Metric struct {
	Name   string            `json:"name"`
	Value  float64           `json:"value"`
	Unit   string            `json:"unit,omitzero"`
	Labels map[string]string `json:"labels,omitzero"`
}
