// Package api has the JSON types of an agent's HTTP API. It has no dependencies, so that clients do not link
// the agent. Pods and events have the types of Kubernetes: v1.PodList and v1.EventList. docs/openapi.json is
// generated from these types and their comments. Read agent.go, incident.go, list.go, plugin.go, pause.go, probe.go,
// summary.go, target.go and explain.go in any order.
package api

// Status is the response to a request that failed, like a metav1.Status of Kubernetes.
type Status struct {
	// Kind is "Status".
	Kind string `json:"kind"`
	// APIVersion is "v1".
	APIVersion string   `json:"apiVersion"`
	Metadata   ListMeta `json:"metadata"`
	// Status is "Failure".
	Status string `json:"status"`
	// Message is the error, for people.
	Message string `json:"message"`
	// Reason is a word for programs, such as "NotFound"; absent if the code has none.
	Reason string `json:"reason,omitzero"`
	// Code is the HTTP status code.
	Code int `json:"code"`
	// Error equals Message.
	//
	// Deprecated: use Message.
	Error string `json:"error"`
}
