// Package kube implements the pod source of `prober node`: the pods of one Kubernetes node that have the
// annotation prober.dev/probes. The kubelet runs these pods, and carries out the probes that are fields of
// containers. Prober carries out the probes of the annotation, and reports results as pod conditions and
// events.
//
// Read [Source] first, then plan.go: the requests of a pod that the operator allows. target.go decides
// which targets are allowed. Package api speaks to the API server, and cri to the container runtime.
// Package conditions computes and writes pod conditions. Package liveness restarts containers and evicts
// pods, and disruption limits it to one pod of a workload at a time.
//
// # One pod, from the informer to a condition
//
//  1. The informer of watched.go lists and watches the pods of the node. trim drops unused fields.
//     namespaces.go does the same for the labels of namespaces.
//  2. Source.observe keeps the newest state of a pod, and queues it for three independent loops:
//     one applies pods, one publishes statuses, one reports.
//  3. Source.attempt applies changed pods, one after the other, with namespaces in turn, and reports to
//     the agent. newPlan validates the annotation and applies the policy. Its errors become an event.
//  4. Source.check prepares the plugins of the pod. If that takes long, Source.prepare continues in
//     another goroutine, so that other pods do not wait: prepare.go.
//  5. Source.apply gives the probes to the manager. priorOf restores the results of an earlier agent.
//  6. Source.publish computes the status of the pod: the kubelet's status, updated from the runtime,
//     with Started and Ready from the decided results. The manager's workers read it from the store.
//  7. A tick decides a result. The tracker of states calls Source.Changed, which keeps the newest state
//     of the probe, and queues the pod. Source.followResults passes failures of liveness and startup
//     probes to the actor.
//  8. Source.report gives the states of all probes of the pod to the writer of conditions, and records
//     events for transitions; Source.recordTransitions has the exceptions.
//  9. The writer of package conditions patches the pod if a condition changes.
package kube
