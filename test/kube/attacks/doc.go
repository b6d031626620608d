// Package attacks tests that the owner of a pod cannot misuse the agent of its node.
//
// The owner may only create pods and write their annotations, in one namespace. Read yard_test.go first:
// listeners on the forbidden addresses count connections, and the kernel counts the packets to them.
// refused_test.go has annotations that are refused with an event, answers_test.go attacks by answers of an
// app, heavy_test.go large annotations, and node_test.go attacks that need a node: commands, network
// namespaces and forged statuses of real pods.
//
// TestFence in test/kube/deploytest tests attacks with the stolen token of an agent.
package attacks
