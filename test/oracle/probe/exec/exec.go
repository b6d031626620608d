// Package exec is pkg/probe/exec of one release of the kubelet.
package exec

import "k8s.io/kubernetes/pkg/probe/exec"

// New returns the handler.
var New = exec.New
