// Package local runs pods on this host, without a cluster and without a container
// engine.
//
// The manifest package reads pods from files. [Pods] runs them. [PodSource] connects both with an
// agent. A container with a command is a group of local processes. A container without a command is an
// external target: it is always running and only probed, and a failed probe restarts nothing.
// Otherwise Pods behaves as the kubelet: it starts init containers one after another and
// sidecars in order, restarts containers that end or fail a probe, and ends pods with preStop
// hooks, SIGTERM, grace periods and SIGKILL.
//
// Only Linux runs containers with a command: see [manifest.Source].
//
// Every container runs under a shim: the same program, started again with a hidden argument. The shim runs
// before the main function is called: see pods/local/internal/shim.
//
// Read pods.go first, then pod.go: the loop of one pod. actions.go decides what to do with a pod,
// as the kubelet's computePodActions does. start.go and stop.go carry that out, and status.go publishes the
// result. saver.go keeps the state of external targets on disk. The internal package process runs
// one container, under a shim of the internal package shim. podsource.go is for agents.
package local
