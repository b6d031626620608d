// Package attempt measures single attempts: of prober's handlers, of the kubelet's packages, and of minimal
// code that shows the cost of the kernel or a protocol. It also measures plugins. The subjects alternate in
// one process.
package attempt

import (
	"fmt"

	"github.com/daeace23/prober/bench/internal/target"
)

// attempt makes one attempt of a kind. slot is the number of the goroutine that calls it, and i
// grows with every call. An attempt that is not a success is an error.
type attempt func(slot, i int) error

// The subjects.
const (
	Prober  = "prober"
	Kubelet = "kubelet"
	Limit   = "limit"
	Reuse   = "prober, reuse" // of http
)

// SubjectsOf returns the subjects of a kind, in the order in which they alternate.
func SubjectsOf(kind string) []string {
	if kind == "http" {
		return []string{Kubelet, Prober, Reuse, Limit}
	}
	return []string{Kubelet, Prober, Limit}
}

// addresses are the targets of one kind. With a single address, the ephemeral ports would run out.
const addresses = 200

func address(i int) string { return target.Address(i % addresses) }

// subject returns the attempt function of a subject for concurrency c.
func subject(name, kind string, ports target.Ports, c int) (attempt, error) {
	port := map[string]int{"http": ports.HTTP, "https": ports.HTTPS, "tcp": ports.TCP, "grpc": ports.GRPC}[kind]
	switch name {
	case Kubelet:
		return kubelet(kind, port)
	case Prober:
		return prober(kind, port)
	case Reuse:
		return reusing(ports.HTTPKept, c)
	case Limit:
		return limit(kind, port, c)
	default:
		return nil, fmt.Errorf("unknown subject %q", name)
	}
}
