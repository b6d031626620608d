//go:build linux

// Package beside compares prober node with the kubelet: both run the same probes of the same apps. It
// compares their results and their use of resources.
//
// Read side_test.go first: it has the pods that both probe, while their apps fail by a schedule.
// rule_test.go computes the expected results from the answers of the apps. writes_test.go counts requests
// to the API server. load_test.go is a benchmark of processor time and memory. Its figures are in
// docs/performance/kubernetes.md.
package beside
