//go:build !k8s136

package declared

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Fields added in Kubernetes 1.37 (KEP-5999, KEP-4939).

func validateProtocol(a *v1.HTTPGetAction, path *field.Path) (errs field.ErrorList) {
	if a.Protocol == nil || *a.Protocol == v1.HTTPProtocolHTTP1 {
		return nil
	}
	if *a.Protocol != v1.HTTPProtocolHTTP2 {
		return field.ErrorList{field.NotSupported(path.Child("protocol"), *a.Protocol, []v1.HTTPProtocol{v1.HTTPProtocolHTTP1, v1.HTTPProtocolHTTP2})}
	}
	if a.Scheme != v1.URISchemeHTTP {
		errs = append(errs, field.Forbidden(path.Child("protocol"), "HTTP2 goes with scheme HTTP only"))
	}
	if a.Host != "" {
		errs = append(errs, field.Forbidden(path.Child("host"), "must be empty with protocol HTTP2"))
	}
	return errs
}

func validateMode(a *v1.GRPCAction, path *field.Path) field.ErrorList {
	if a.Mode == nil || *a.Mode == v1.GRPCProbeModePlaintext || *a.Mode == v1.GRPCProbeModeTLS {
		return nil
	}
	return field.ErrorList{field.NotSupported(path.Child("mode"), *a.Mode, []v1.GRPCProbeMode{v1.GRPCProbeModePlaintext, v1.GRPCProbeModeTLS})}
}
