// Package cri speaks to the container runtime of a node over its socket: the states of
// containers, sooner than the kubelet publishes them; commands in containers; and their end.
//
// Read follow.go first: how the state of the node is kept in memory, one list at a time. state.go is
// that state, an immutable snapshot; overlay.go says when it is newer than the status of a pod.
// calls.go has the calls that act on one container, commands.go those commands that outlive their
// attempts, and netns.go finds the network of a pod.
//
// Pods are known by the UID in the labels of their containers. That of a static pod is not the UID of
// its mirror pod in the API: of those this package says nothing.
package cri
