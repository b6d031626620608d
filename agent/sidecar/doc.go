// Package sidecar lets the kubelet's own probes ask for prober's: `prober sidecar` runs it in a container
// of the pod. A request makes one attempt, and its answer is the result. It has no schedule and no
// thresholds, since the kubelet has them.
//
// Read server.go first: what a request gets. probes.go reads the annotation, table.go has the probes
// that it declares now and follows its changes, asked.go makes the attempts of one probe, and run.go serves.
package sidecar
