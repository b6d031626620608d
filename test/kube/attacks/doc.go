// Package attacks has the tests of what the owner of a pod cannot do with the agent of its node.
//
// The owner may create pods and write their annotations in one namespace, and nothing else. Read
// yard_test.go first: the addresses that the owner wants to reach have listeners that count, and the
// kernel counts the packets to them. refused_test.go has the annotations that are refused with an event,
// answers_test.go what an app may answer to the agent, heavy_test.go annotations that are large, and
// node_test.go what needs a node: commands, network namespaces and forged statuses of real pods.
//
// What somebody can do who has stolen the token of an agent is in test/kube/deploytest: TestFence.
package attacks
