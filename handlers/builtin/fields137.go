//go:build !k8s136

package builtin

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// Kubernetes 1.37 added these fields to the actions. The tag k8s136 builds this module with the
// API of 1.36, which lacks them.

// wantsH2C reports whether action asks for HTTP/2 without TLS.
func wantsH2C(action *v1.HTTPGetAction) (bool, error) {
	if action.Protocol == nil {
		return false, nil
	}
	switch *action.Protocol {
	case v1.HTTPProtocolHTTP1:
		return false, nil
	case v1.HTTPProtocolHTTP2:
	default:
		return false, fmt.Errorf("protocol: unknown protocol %q; known: HTTP1, HTTP2", *action.Protocol)
	}
	if action.Scheme != "" && action.Scheme != v1.URISchemeHTTP {
		return false, fmt.Errorf("protocol: HTTP2 is for scheme HTTP, not %s", action.Scheme)
	}
	if action.Host != "" {
		return false, errors.New("host: must be empty when protocol is HTTP2")
	}
	return true, nil
}

// wantsTLS reports whether action asks for TLS.
func wantsTLS(action *v1.GRPCAction) (bool, error) {
	if action.Mode == nil {
		return false, nil
	}
	switch *action.Mode {
	case v1.GRPCProbeModePlaintext:
		return false, nil
	case v1.GRPCProbeModeTLS:
		return true, nil
	default:
		return false, fmt.Errorf("mode: unknown mode %q; known: Plaintext, TLS", *action.Mode)
	}
}
