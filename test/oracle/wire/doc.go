// Package wire compares the built-in handlers with the kubelet's packages
// k8s.io/kubernetes/pkg/probe/{http,tcp,grpc,exec} on real connections and processes. It has tests only.
//
// A situation is a server, as bytes and pauses, and a probe of it. Each side probes its own server. Ours runs
// twice, with the profile of the kubelet's release and with all fixes on. The test compares the result, the
// output, the error, and the observations of the server: its connections, and the bytes of each, or the TLS
// hello and the HTTP/2 frames. Ports and the remaining time in grpc-timeout are replaced by words. If the
// answers differ, the kubelet's side runs again, because the kernel may order events differently: our answer
// must be one of the kubelet's.
//
// The known differences have names in docs/kubelet-parity.md: "All output is cut", "A cut falls between
// characters", "Texts of HTTPS time-outs", "gRPC ports", "gRPC addresses with a zone", "HTTP schemes" and
// "Texts of unknown ports".
// [probe.CompatBodyHangIsError] is compared both on and off.
//
//	go test -tags k8s136 ./wire
//	go test -overlay "$(go run ./release 1.37)" -tags k8s136 ./wire -run 'Ports|Gate'
//	go test -tags k8s136 ./wire -run '^$' -fuzz FuzzHTTPResponse -fuzztime 3m
//	go test -tags k8s136 ./wire -run '^$' -fuzz FuzzHTTP2Frames -fuzztime 3m
//	go test -tags k8s136 ./wire -run TestMisbehaving -v -timeout 0 -args -probes 1000000 -commands 100000
//
// The last command probes misbehaving servers with each of the handlers, and checks that no descriptor,
// goroutine or thread is leaked.
package wire
