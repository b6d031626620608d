// Package pods is the interface between an agent and its source of pods, so that neither imports
// the other. An agent has one source, such as pods/local or pods/kube.
//
// Read [Host] first, which the agent provides to the source. Then read [Source], which the source provides to
// the agent.
package pods
