// Package pods is the interface between an agent and its source of pods, so that neither imports
// the other. An agent has one source; pods/local is one.
//
// Read [Host] first: what the agent offers to the source. Then read [Source]: what the source offers to
// the agent.
package pods
