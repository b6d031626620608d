// Package pods is what an agent and a source of its pods say to each other, so that neither
// imports the other. An agent runs one source, see agent.PodSource; pods/local is one.
//
// Read [Host] first: it is what the agent offers to the source.
package pods
