// Package targets makes pods of the targets in prober.yaml, which prober probes and does not run.
// Each target is a pod with one external container, so that its probe, its metrics and its place in
// the API are those of any other pod.
//
// Read build.go first: a pure function from groups and lists of addresses to pods, and to the
// targets that are dropped with their reasons. group.go makes the groups of prober.yaml; relabel.go,
// address.go, probe.go and pod.go are the steps from an address to a pod. source.go owns the lists:
// each has a goroutine of its own, fetcher.go, that reads files (files.go), or asks a service
// (http.go), a name server (dns.go) or a command (command.go). sd.go reads Prometheus' format.
package targets
