package api

import "time"

// The types of an [Endpoint].
const (
	TypeEndpoint = "endpoint"
	TypePush     = "push"
)

// EndpointList is a page of endpoints.
type EndpointList struct {
	Metadata ListMeta   `json:"metadata,omitzero"`
	Items    []Endpoint `json:"items"`
}

// Endpoint is a push or an endpoint of prober.yaml. Its state is the state of its probe, whose pod has its
// name.
type Endpoint struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Type is "endpoint" or "push".
	Type string `json:"type"`
	CurrentState
	// Rule says which checks must pass, such as "all of web, db".
	Rule string `json:"rule,omitzero"`
	// Checks are the probes of an endpoint.
	Checks []EndpointCheck `json:"checks,omitzero"`
	// Missing are the names of checks without a probe.
	Missing []string    `json:"missing,omitzero"`
	Push    *PushStatus `json:"push,omitzero"`
	// DependsOn are the entries of prober.yaml without which it cannot work.
	DependsOn []string `json:"dependsOn,omitzero"`
	// Forced is the state that a user has forced: "up", "down" or "drained".
	Forced string `json:"forced,omitzero"`
	// Maintenance is the maintenance window of its probe; absent if it is in none.
	Maintenance *Maintenance `json:"maintenance,omitzero"`
}

// Word returns the state for a table: "failure", "failure (forced down)", or "failure (maintenance)".
func (e *Endpoint) Word() string {
	switch {
	case e.Forced == "" && e.Maintenance != nil:
		return e.State + " (" + InMaintenance + ")"
	case e.Forced == "":
		return e.State
	}
	forced := Pause{Forced: e.Forced}
	return e.State + " (" + forced.text() + ")"
}

// Passing returns the number of checks in the states success and warning that are not drained.
func (e *Endpoint) Passing() (n int) {
	for i := range e.Checks {
		if s := e.Checks[i].State; !e.Checks[i].Drained && (s == "success" || s == "warning") {
			n++
		}
	}
	return n
}

// EndpointCheck is a probe of an endpoint with its state.
type EndpointCheck struct {
	// Name is the name in prober.yaml, or the pod if that names several probes.
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Kind      string `json:"kind"`
	Weight    int    `json:"weight"`
	// Decides is whether the check decides the state of the endpoint.
	Decides bool `json:"decides"`
	// Drained is whether somebody has drained the check, so that the endpoint goes by the others.
	Drained bool `json:"drained,omitzero"`
	CurrentState
}

// EndpointName names an [Endpoint] of the type "endpoint".
type EndpointName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// PushStatus has the last report of a push, and its deadline.
type PushStatus struct {
	// LastReport is the time of the last report.
	LastReport time.Time `json:"lastReport,omitzero"`
	// Started is the start of a run without a report yet.
	Started time.Time `json:"started,omitzero"`
	// Due is when the push fails without a report.
	Due time.Time `json:"due,omitzero"`
	// Message is the message of the last report.
	Message string `json:"message,omitzero"`
}

// PushReply is the response to a report.
type PushReply struct {
	// Name is the name of the push.
	Name string `json:"name,omitzero"`
	// Reports is the number of reports of a request with lines.
	Reports int `json:"reports,omitzero"`
}
