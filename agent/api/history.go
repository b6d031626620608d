package api

import "time"

// Report is the response of /api/v1/report: the availability of each probe.
type Report struct {
	Metadata ListMeta `json:"metadata,omitzero"`
	// Since and Until bound the report. Since is not before the oldest kept history.
	Since time.Time    `json:"since"`
	Until time.Time    `json:"until"`
	Items []ReportItem `json:"items"` // sorted by namespace, pod, container and kind
}

// ReportItem is the availability of one probe. Successive pods with the same name are one item.
type ReportItem struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Kind      string `json:"kind"`
	Handler   string `json:"handler"`
	// Target is what the probe probes now; absent for a probe that has ended.
	Target string `json:"target,omitzero"`
	// Uptime is the fraction of the known time in which the state was success or warning, from 0 to 1; nil if
	// no time is known.
	Uptime *float64 `json:"uptime"`
	// Seconds is how long the probe was in each state. Time without the agent, without the probe, or in a
	// maintenance window with "exclude", counts for no state. Uptime is (success+warning) / (success+warning+failure).
	Seconds StateSeconds `json:"seconds"`
	// Incidents are the times in which the state was failure, newest first, at most 1,000. A restart of the
	// agent, or an unknown state for at most ten minutes, does not end an incident.
	Incidents []Incident `json:"incidents"`
	// IncidentCount is the number of all incidents.
	IncidentCount int `json:"incidentCount"`
	// MeanSeconds and LongestSeconds are durations of incidents; 0 if there are none.
	MeanSeconds    float64 `json:"meanSeconds"`
	LongestSeconds float64 `json:"longestSeconds"`
	// Parts are the uptimes in equal parts of the time that was asked for, oldest first; nil where no time is
	// known. Absent if parts were not asked for, or no time is known.
	Parts []*float64 `json:"parts,omitzero"`
}

// StateSeconds is how long a probe was in each state, in seconds.
type StateSeconds struct {
	Success float64 `json:"success"`
	Warning float64 `json:"warning"`
	Failure float64 `json:"failure"`
	Unknown float64 `json:"unknown"`
	// Maintenance is how long it was in maintenance windows whose time counts for no state.
	Maintenance float64 `json:"maintenance,omitzero"`
}

// Incident is a time in which a probe was in the state failure.
type Incident struct {
	Start time.Time `json:"start"` // not before the start of the report
	// End is absent if the incident continues.
	End time.Time `json:"end,omitzero"`
	// DurationSeconds is how long the state was failure, without times in which it was unknown.
	DurationSeconds float64 `json:"durationSeconds"`
	Reason          string  `json:"reason,omitzero"` // of the tick that decided it
	Text            string  `json:"text,omitzero"`   // its output or its error
}

// ProbeHistory is the response of /api/v1/probes/{namespace}/{pod}/{container}/{kind}/history.
type ProbeHistory struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Target is what the probe probes now; absent for a probe that has ended.
	Target string `json:"target,omitzero"`
	// StepSeconds is the length of a point: 60, or a multiple of it that limits the points to 1,500.
	StepSeconds int `json:"stepSeconds"`
	// Points are the aggregates of ticks, oldest first. A step without ticks has no point.
	Points []HistoryPoint `json:"points"`
	// Transitions are the changes of the state, newest first, at most 1,000.
	Transitions []Transition `json:"transitions"`
}

// HistoryPoint is the aggregate of the ticks of a step.
type HistoryPoint struct {
	Time time.Time `json:"time"` // when the step began
	// Success, Warning, Failure and Unknown count ticks by the result of their last attempt.
	Success int `json:"success,omitzero"`
	Warning int `json:"warning,omitzero"`
	Failure int `json:"failure,omitzero"`
	Unknown int `json:"unknown,omitzero"`
	// MeanSeconds and MaxSeconds are durations of ticks, with an error of at most 5 %.
	MeanSeconds float64 `json:"meanSeconds"`
	MaxSeconds  float64 `json:"maxSeconds"`
}

// ProbeDurations is the response of /api/v1/probes/{namespace}/{pod}/{container}/{kind}/durations: percentiles of the
// durations of ticks, by whole hours. A duration has an error of at most 12.5 %. Percentiles of several hours are
// estimated from the percentiles of each, and equal these if the hours are alike.
type ProbeDurations struct {
	Since time.Time `json:"since"` // the beginning of an hour
	Until time.Time `json:"until"`
	// Target is what the probe probes now; absent for a probe that has ended.
	Target string `json:"target,omitzero"`
	// StepSeconds is the length of a point: 3,600, or a multiple of it that limits the points to 200.
	StepSeconds int `json:"stepSeconds"`
	// The percentiles and the points are of whole ticks.
	DurationPercentiles
	Points []DurationPoint `json:"points"` // oldest first. A step without ticks has no point
	// Phases are the parts of ticks that the handler has reported, in their order: at most 8 for an hour, and 16 in
	// all. A phase is an event of type "phase" or "call" in explanations.
	Phases []PhaseDurations `json:"phases"`
}

// PhaseDurations has the percentiles of a phase. A phase that occurs several times in the last attempt of a tick counts
// once, with the sum of its durations.
type PhaseDurations struct {
	Name string `json:"name"` // such as "connect"
	DurationPercentiles
	Points []DurationPoint `json:"points"` // as for whole ticks
}

// DurationPoint has the percentiles of a step.
type DurationPoint struct {
	Time time.Time `json:"time"` // when the step began
	DurationPercentiles
}

// DurationPercentiles are durations that 50, 90 and 99 % of the ticks did not exceed.
type DurationPercentiles struct {
	Ticks      uint64  `json:"ticks"` // number of ticks, with any result
	P50Seconds float64 `json:"p50Seconds"`
	P90Seconds float64 `json:"p90Seconds"`
	P99Seconds float64 `json:"p99Seconds"`
}

// Transition is a change of the state of a probe.
type Transition struct {
	Time time.Time `json:"time"`
	// From and To are "success", "warning", "failure" or "unknown". To is "absent" if the probe was removed
	// or the agent stopped; From is "absent" when the probe began again.
	From   string `json:"from"`
	To     string `json:"to"`
	Reason string `json:"reason,omitzero"` // of the tick that decided it, as in the metrics
	Text   string `json:"text,omitzero"`   // its output or its error
}

// StateChanges is the response of /api/v1/changes.
type StateChanges struct {
	// Since and Until bound the changes. Since is not before the oldest kept history.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Items are the changes, in windows of four hours, oldest first; almost in the order of time. The first
	// change of a probe that existed at Since is from "absent" to its state then.
	Items []StateChange `json:"items"`
}

// StateChange is a change of the state of a probe. A stop of the agent is none.
type StateChange struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Kind      string `json:"kind"`
	Handler   string `json:"handler"`
	Transition
	// Maintenance means that the probe is in a maintenance window whose time reports count for no state.
	Maintenance bool `json:"maintenance,omitzero"`
}
