package api

import "time"

// CurrentState is the state of a probe for people, as in notifications and reports. It is the decided result,
// but warning if the attempt that confirmed a success warned, and unknown while nothing was decided or three
// ticks in a row had no verdict.
type CurrentState struct {
	// State is "success", "warning", "failure" or "unknown"; absent for a probe that was removed.
	State string `json:"state,omitzero"`
	// StateSince is when the state began; absent for a probe that has only been unknown.
	StateSince time.Time `json:"stateSince,omitzero"`
	// Cause is the output or the error of the newest attempt with the state, as one line; absent for a
	// success. A target may have written it. In a [ProbeSummary] it has at most 200 bytes, and is absent if
	// Last has it.
	Cause string `json:"cause,omitzero"`
}

// ProbeSummary is a probe in the stream with view=summary: the fields of a table.
type ProbeSummary struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	UID       string `json:"uid"`
	Container string `json:"container"`
	Kind      string `json:"kind"` // "liveness", "readiness" or "startup"
	Handler   string `json:"handler"`
	Target    string `json:"target,omitzero"` // see [ProbeStatus]
	CurrentState
	Result string       `json:"result"` // decided: "success", "failure" or "unknown"
	Run    int          `json:"run"`    // consecutive equal results
	OnHold bool         `json:"onHold,omitzero"`
	Paused bool         `json:"paused,omitzero"`
	Gate   string       `json:"gate,omitzero"` // why the probe makes no attempts
	Last   *TickSummary `json:"last,omitzero"` // absent before the first tick
	// Maintenance is the maintenance window of the probe; absent if it is in none.
	Maintenance *Maintenance `json:"maintenance,omitzero"`
	Removed     bool         `json:"removed,omitzero"`
}

// TickSummary is the last tick of a [ProbeSummary].
type TickSummary struct {
	Result          string    `json:"result"`        // "success", "warning", "failure" or "unknown"
	Text            string    `json:"text,omitzero"` // the error or the output, one line of at most 200 bytes
	Time            time.Time `json:"time"`
	DurationSeconds float64   `json:"durationSeconds"`
}

// PodSummary is a pod in the stream with view=summary.
type PodSummary struct {
	Namespace  string             `json:"namespace"`
	Name       string             `json:"name"`
	UID        string             `json:"uid"`
	Labels     map[string]string  `json:"labels,omitzero"` // of the target, for a pod of a target
	Phase      string             `json:"phase"`
	Ready      bool               `json:"ready"`
	Created    time.Time          `json:"created,omitzero"`
	Reason     string             `json:"reason,omitzero"` // of the phase
	Containers []ContainerSummary `json:"containers"`      // init containers first
	Removed    bool               `json:"removed,omitzero"`
}

// ContainerSummary is a container of a [PodSummary].
type ContainerSummary struct {
	Name       string    `json:"name"`
	Init       bool      `json:"init,omitzero"`
	Ready      bool      `json:"ready"`
	Restarts   int       `json:"restarts"`
	State      string    `json:"state"` // "running", "waiting" or "terminated"
	Since      time.Time `json:"since,omitzero"`
	Reason     string    `json:"reason,omitzero"`     // why it waits, or how it ended
	LastEnd    time.Time `json:"lastEnd,omitzero"`    // when the previous container ended
	LastReason string    `json:"lastReason,omitzero"` // how the previous container ended
}
