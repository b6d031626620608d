// Package kube is the source of pods of `prober node`: the pods of a node of a Kubernetes cluster that
// have the annotation prober.dev/probes. The kubelet runs them, and carries out the probes of their
// containers. Prober carries out those of the annotation, and tells the cluster by conditions of the
// pod and by events.
//
// Read [Source] first, then plan.go: what a pod asks for, as far as the operator allows it. target.go is
// the rule for targets. Below are the rooms that the source is made of: api speaks to the API server, cri to
// the container runtime, conditions is the rule of the conditions and their writer, liveness restarts
// and evicts, and disruption lets it do so for one pod of a workload at a time.
//
// # One pod, from the informer to a condition
//
//  1. The informer of watched.go lists and watches the pods of the node. trim drops what is not needed.
//  2. Source.observe keeps the newest state of a pod, and queues it for the loops. None of the loops
//     waits for another: one that applies, one that publishes statuses, one that reports.
//  3. Source.attempt applies the pods that have changed, one after the other, of namespaces in turn, and reports to the agent.
//     newPlan validates the annotation and applies the policy. What is wrong becomes an event.
//  4. Source.check prepares the plugins of the pod. Where that takes long, Source.prepare waits for them
//     instead, so that other pods do not: prepare.go.
//  5. Source.apply gives the probes to the manager; priorOf says which an earlier agent has probed.
//  6. Source.publish computes the status of the pod: what the kubelet has told, sharpened by the runtime,
//     with Started and Ready by the decided results. The workers of the manager get it from the store.
//  7. A tick decides a result. The tracker of states calls Source.Changed, which keeps the newest state
//     of the probe, and queues the pod. Source.followResults gets failures of liveness and startup
//     probes, and passes them to the actor.
//  8. Source.report tells the states of all probes of the pod to the writer of conditions, and writes an
//     event for each transition.
//  9. The writer of package conditions patches the pod if that changes a condition.
package kube
