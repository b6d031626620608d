package api

import "time"

// AgentStatus is the response of /api/v1/agent: the status of the agent itself.
type AgentStatus struct {
	Version  string    `json:"version,omitzero"`
	Revision string    `json:"revision,omitzero"`
	Started  time.Time `json:"started"`
	// Ready reports whether /readyz passes.
	Ready bool `json:"ready"`
	// Checks are the problems of the agent, such as a file that it has refused.
	Checks []Check `json:"checks"`
}
