// Package sidecar lets the kubelet's own probes run probes of prober: `prober sidecar` runs in a container of
// the pod. A request makes one attempt, and responds with its result. It has no schedule and no thresholds,
// as the kubelet has them.
//
// Read server.go first: the response to a request. probes.go reads the annotation, table.go has the probes
// that it declares and follows its changes, requested.go makes the attempts of one probe, and run.go serves.
package sidecar
