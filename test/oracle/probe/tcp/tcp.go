// Package tcp is pkg/probe/tcp of one release of the kubelet.
package tcp

import "k8s.io/kubernetes/pkg/probe/tcp"

// New returns the handler.
var New = tcp.New
