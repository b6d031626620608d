//go:build linux

// Package beside compares prober node with the kubelet: the same probe of the same app by both, and
// what both take for it.
//
// Read side_test.go first: pods that both probe, while their apps fail by a schedule. rule_test.go is
// what must follow from the answers that the apps have given. writes_test.go counts requests to the API
// server. load_test.go is a benchmark of processor time and memory: its figures are in
// docs/performance/kubernetes.md.
package beside
