// Package faults has the tests of what happens when something is away: the API server, the container
// runtime, the kubelet, the agent, or all of the node. Nothing may flap, and nothing may be lost.
//
// Read fleet_test.go first: the pods that all tests of TestFaults share. recorder_test.go records all
// changes of their conditions and all of their events, from etcd, so also those that no watch of the API
// server shows. What the apps were told is what the results are compared with.
package faults
