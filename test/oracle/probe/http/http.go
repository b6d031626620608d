// Package http is pkg/probe/http of one release of the kubelet.
package http

import (
	"net/http"
	"time"

	"k8s.io/kubernetes/pkg/probe"
	httpprobe "k8s.io/kubernetes/pkg/probe/http"
)

// NewRequestForHTTPGetAction returns the request of an attempt.
var NewRequestForHTTPGetAction = httpprobe.NewRequestForHTTPGetAction

// Prober is the handler.
type Prober struct{ httpprobe.Prober }

// New returns the handler.
func New(followNonLocalRedirects bool) Prober { return Prober{httpprobe.New(followNonLocalRedirects)} }

// ProbeH2C is like Probe: this release does not support HTTP/2 without TLS.
func (p Prober) ProbeH2C(req *http.Request, timeout time.Duration) (probe.Result, string, error) {
	return p.Probe(req, timeout)
}
