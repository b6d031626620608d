// Package wire compares the built-in handlers with the kubelet's packages k8s.io/kubernetes/pkg/probe/{http,tcp,grpc,exec}
// on real connections and processes. It has tests only.
//
// A situation is a server, as bytes and pauses, and a probe of it. Both sides probe a server of their
// own; the kubelet's side is compared with ours twice, with the profile of its release and with
// all fixes on. Compared are the result, the output, the error, and what the server saw: its
// connections, and the bytes of each, or the TLS hello, the HTTP/2 frames. Ports and the
// remaining time in grpc-timeout are replaced by words. Where the answers differ, the kubelet is
// asked again, since the kernel may order events differently: ours must be one of its answers.
//
// Known differences, by their names in docs/kubelet-parity.md: "All output is cut", "A cut falls between
// characters", "Texts of HTTPS time-outs", "gRPC ports", "gRPC addresses with a zone", "HTTP schemes" and
// "Texts of unknown ports".
// The switch [probe.CompatBodyHangIsError] is compared in both of its positions.
//
//	go test -tags k8s136 ./wire
//	go test -overlay "$(go run ./release 1.37)" -tags k8s136 ./wire -run 'Ports|Gate'
//	go test -tags k8s136 ./wire -run '^$' -fuzz FuzzHTTPResponse -fuzztime 3m
//	go test -tags k8s136 ./wire -run '^$' -fuzz FuzzHTTP2Frames -fuzztime 3m
//	go test -tags k8s136 ./wire -run TestMisbehaving -v -timeout 0 -args -probes 1000000 -commands 100000
//
// The last one probes servers that misbehave, with each of the handlers, and checks that no
// descriptor, goroutine or thread is left.
package wire
