// Package cri is a client for the container runtime of a node (CRI). It reads container states earlier than the
// kubelet publishes them, runs commands in containers, and stops containers.
//
// Read follow.go first: it keeps the containers of the node in memory, by listing them. state.go has the
// result, an immutable snapshot. overlay.go merges it into the status of a pod where it is newer.
// calls.go has the calls for one container, commands.go tracks commands that outlive their attempts, and
// netns.go finds the network namespace of a pod.
//
// Pods are identified by the UID in the labels of their containers. A static pod has another UID there than its
// mirror pod in the API, so this package cannot find the containers of mirror pods.
package cri
