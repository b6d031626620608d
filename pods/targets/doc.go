// Package targets generates pods for the targets in prober.yaml, which prober probes but does not run.
// Each target is a pod with one external container, so that its probe, its metrics and the API treat it
// as any other pod.
//
// Read build.go first: a pure function from groups and lists of addresses to pods, and to dropped
// targets with their reasons. group.go compiles the groups of prober.yaml. relabel.go, probe.go and
// pod.go are the steps from an address to a pod. checks.go makes pods of pushes and endpoints. source.go owns the lists. Each list has a goroutine, in
// fetcher.go, which reads files (files.go), or queries a service (http.go), a name server (dns.go) or a
// command (command.go). sd.go parses the format of Prometheus.
package targets
