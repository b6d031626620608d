// Package api has the JSON types of an agent's HTTP API. It has no dependencies, so that a client
// does not link an agent. Pods and events are those of Kubernetes: v1.PodList and v1.EventList.
// Read list.go, plugin.go and probe.go in any order.
package api

// Error is the response to a request that failed.
type Error struct {
	Error string `json:"error"`
}
