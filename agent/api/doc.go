// Package api has the JSON types of an agent's HTTP API. It has no dependencies, so that a client
// does not link an agent. Pods and events are those of Kubernetes: v1.PodList and v1.EventList.
// docs/openapi.json is made of these types and their comments. Read agent.go, list.go, plugin.go,
// pause.go, probe.go, summary.go, target.go and explain.go in any order.
package api

// Status is the response to a request that failed, as the metav1.Status of Kubernetes.
type Status struct {
	// Kind is "Status".
	Kind string `json:"kind"`
	// APIVersion is "v1".
	APIVersion string   `json:"apiVersion"`
	Metadata   ListMeta `json:"metadata"`
	// Status is "Failure".
	Status string `json:"status"`
	// Message says what is wrong, for people.
	Message string `json:"message"`
	// Reason is a word for programs, such as "NotFound"; absent if there is none for the code.
	Reason string `json:"reason,omitzero"`
	// Code is the status of HTTP.
	Code int `json:"code"`
	// Error is the message.
	//
	// Deprecated: use Message.
	Error string `json:"error"`
}
