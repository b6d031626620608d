// Package grpc is pkg/probe/grpc of one release of the kubelet.
package grpc

import (
	"time"

	"k8s.io/kubernetes/pkg/probe"
	grpcprobe "k8s.io/kubernetes/pkg/probe/grpc"
)

// ProbeOptions are ignored: this release does not support gRPC with TLS.
type ProbeOptions struct{ UseTLS bool }

// Prober is the handler.
type Prober struct{ prober grpcprobe.Prober }

// New returns the handler.
func New() Prober { return Prober{grpcprobe.New()} }

// Probe makes an attempt.
func (p Prober) Probe(host, service string, port int, timeout time.Duration, _ ProbeOptions) (probe.Result, string, error) {
	return p.prober.Probe(host, service, port, timeout)
}
