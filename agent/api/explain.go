package api

// Explanation is the response of /api/v1/probes/{namespace}/{pod}/{container}/{kind}/explain. It explains the
// decided result of a probe.
type Explanation struct {
	Probe ProbeStatus `json:"probe"` // its history is empty
	// Summary is one sentence: why the last tick did or did not change the decided result, and what comes
	// next. Its durations count from the time of the response.
	Summary string            `json:"summary"`
	Ticks   []TickExplanation `json:"ticks"` // newest first; empty if none are kept
	// Deciding are the checks that decide the state of an endpoint of prober.yaml; absent for other probes. A
	// check that is an endpoint too is followed by the checks that decide its state. A check without a probe
	// has no namespace, pod, container and kind.
	Deciding []EndpointCheck `json:"deciding,omitzero"`
	// PartOf are the endpoints of prober.yaml that have the probe as a check.
	PartOf []EndpointName `json:"partOf,omitzero"`
	// Agent are the problems of the agent itself, such as a file that it has refused; absent if there are
	// none.
	Agent []Check `json:"agent,omitempty"`
}

// Check is a check of /readyz that does not pass.
type Check struct {
	Name   string `json:"name"`   // such as "reload" or "plugin redis"
	Result string `json:"result"` // "warning", or "failure" while the agent is not ready
	Text   string `json:"text"`
}

// TickExplanation is a tick of a probe, with the events of its attempts and the effect of the thresholds.
type TickExplanation struct {
	TickStatus
	Reason          string  `json:"reason,omitzero"`          // from a closed list, as in the metrics
	DeferredSeconds float64 `json:"deferredSeconds,omitzero"` // time that attempts waited for a slot; not part of the duration

	Counted   bool   `json:"counted"`            // whether the thresholds counted it
	CountedAs string `json:"countedAs,omitzero"` // "success" or "failure"; "" if it was not counted
	Run       int    `json:"run"`                // consecutive equal results, including this one
	RunBefore int    `json:"runBefore"`          // and before it
	Threshold int    `json:"threshold"`          // the run that decides; 0 if it was not counted
	Before    string `json:"before"`             // decided result before the tick: "success", "failure" or "unknown"
	After     string `json:"after"`              // and after it
	OnHold    bool   `json:"onHold"`             // no attempts followed until the container ID changed

	// Events are the events of the attempts, in order. When memory is short, events of successful ticks are
	// dropped first, then those that remain.
	Events        []TraceEvent `json:"events"`
	DroppedEvents int          `json:"droppedEvents,omitzero"` // number of events beyond the limits of a tick
}

// TraceEvent is one event inside an attempt.
type TraceEvent struct {
	// Type is "phase", "call", "log", "denied", "wait" (the operation that was pending at the deadline), or
	// "retry". A retry begins another attempt, and its detail is the error of the previous one.
	Type            string  `json:"type"`
	Name            string  `json:"name"` // the phase ("dns", "connect", "tls", "first byte", "headers", "body"), the call, the level of a log line
	Detail          string  `json:"detail,omitzero"`
	DurationSeconds float64 `json:"durationSeconds"`
}
