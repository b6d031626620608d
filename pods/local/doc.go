// Package local runs pods on this host, without a cluster and without a container
// engine.
//
// [Source] reads them from manifest files. [Pods] runs them: a container with a
// command is a group of local processes, one without is an external target, which is
// always running and only probed: its probes go on after a failure, and restart
// nothing. Pods does with them what the kubelet does: it starts init containers one
// after another and sidecars in order, restarts what failed or what its probes
// condemned, and ends pods with preStop hooks, SIGTERM, grace periods and SIGKILL.
//
// Only Linux runs containers with a command; other systems have external targets alone:
// see [Source.System].
//
// Every container runs under a shim, which is this same program started again with a
// hidden argument: see [IsShim]. A program that uses Pods must begin with it:
//
//	if local.IsShim(os.Args) {
//		os.Exit(local.ShimMain())
//	}
package local
