// Package faults tests failures of the API server, the container runtime, the kubelet, the agent and the
// whole node. No condition may flap, and no change may be lost.
//
// Read fleet_test.go first: it has the pods that all tests of TestFaults share. recorder_test.go records all
// changes of their conditions and all of their events. It reads etcd, so it misses none while the API
// server is away. The tests make apps sick and well, and compare the conditions with that.
package faults
