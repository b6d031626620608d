// Package bench measures prober and the kubelet's own code. It is a module of its own, so that the root
// module does not require k8s.io/kubernetes. Build it with -tags k8s136, like test/oracle.
//
//	make bench-peers    # all but the scale, about 22 minutes on a quiet machine; writes docs/performance.md
//	make bench-scale    # 1,000 to 1,000,000 probes, 4 minutes
//	go run -tags k8s136 ./cmd/bench -list
//	go run -tags k8s136 ./cmd/bench -scenario http -seconds 2 -rounds 3 -again
//
// internal/scenario defines the measurements, their goals and their presentation. internal/attempt measures
// single attempts, internal/load whole managers, internal/schedule the limits of scheduling, internal/parts
// the metrics and the results. internal/target has the servers that are probed. internal/measure has
// statistics, internal/record the files in records, internal/report writes docs/performance.md.
package bench
