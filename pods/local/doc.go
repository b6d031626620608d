// Package local runs pods on this host, without a cluster and without a container
// engine.
//
// The manifest package reads them from files. [Pods] runs them. A container with a command is
// a group of local processes. A container without one is an external target: it is always
// running and only probed, and a failed probe restarts nothing. Pods does with them what the
// kubelet does: it starts init containers one after another and sidecars in order, restarts
// containers that ended or failed a probe, and ends pods with preStop hooks, SIGTERM, grace
// periods and SIGKILL.
//
// Only Linux runs containers with a command: see Source.System of the manifest package.
//
// Every container runs under a shim, which is the same program started again with a hidden
// argument: see [IsShim]. A program that uses Pods must begin with it:
//
//	if local.IsShim(os.Args) {
//		os.Exit(local.ShimMain())
//	}
//
// Read pods.go first, then pod.go: the loop of one pod. actions.go decides what a pod needs,
// as the kubelet's computePodActions; start.go and stop.go carry it out; status.go publishes
// the result. The internal package process runs one container.
package local
