// Package policy has the probes that a cluster declares for pods by their labels.
//
// A [ProbePolicy] belongs to a namespace, and selects pods there. `prober controller` writes the policies that the
// pods of a node need into one [NodeProbes] object, which the agent of the node watches. So an agent reads one
// small object, and the status of a policy, which changes often, reaches no agent. The agent selects the pods
// itself: a new pod of a known policy needs no write.
//
// A probe is written as in the annotation prober.dev/probes, and read by the same code: [declared.ParseWith].
package policy
