// Package bench is a module of its own, which measures prober beside the kubelet's own code: the
// root module never requires k8s.io/kubernetes. Build it with -tags k8s136, as test/oracle.
//
//	make bench-peers    # all but the scale, about 22 minutes on a quiet machine; writes docs/performance.md
//	make bench-scale    # 1,000 to 1,000,000 probes, 4 minutes
//	go run -tags k8s136 ./cmd/bench -list
//	go run -tags k8s136 ./cmd/bench -scenario http -seconds 2 -rounds 3 -again
//
// internal/scenario has the measurements, their goals and how they are shown. internal/attempt
// measures single attempts, internal/load whole managers, internal/schedule the limits of
// scheduling, internal/parts the metrics and the results. internal/target has the servers.
// internal/measure has the arithmetic, internal/record the files in records, internal/report the
// page.
package bench
