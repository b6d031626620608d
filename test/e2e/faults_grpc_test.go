//go:build e2e

package e2e

import (
	"crypto/tls"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// grpcFaults has rows of the built-in grpc handler, and of the shipped plugin grpc-health.
func grpcFaults(t *testing.T) []fault {
	h := health.NewServer()
	h.SetServingStatus("shop", healthpb.HealthCheckResponse_SERVING)
	h.SetServingStatus("mail", healthpb.HealthCheckResponse_NOT_SERVING)
	certs := newShopCertificates(t)
	secured := func(name string) string {
		cert, err := tls.LoadX509KeyPair(certs.files[name].chain, certs.files[name].key)
		if err != nil {
			t.Fatal(err)
		}
		return grpcServer(t, h, grpc.Creds(credentials.NewServerTLSFromCert(&cert)))
	}
	plain, locked, bare := grpcServer(t, h), grpcServer(t, h, grpc.UnaryInterceptor(guarded)), grpcServer(t, nil)
	good, closed, hangs, web := secured(goodCert), freeAddress(t), silent(t), nginxPage(t)
	builtin := func(fields object) object { return object{"grpc": fields} }
	plugin := func(fields object) object { return byPlugin("grpc-health", fields) }
	trusted := plugin(object{"tls": true, "tlsConfig": object{"serverName": "shop.test", "ca": certs.root}})
	service := func(name string) object { return object{"service": name} }
	return []fault{
		{"grpc: serving", plain, builtin(service("shop")), "success", "service healthy"},
		{"grpc: not serving", plain, builtin(service("mail")), "failure", `service unhealthy (responded with "NOT_SERVING")`},
		{"grpc: unknown service", plain, builtin(service("gone")), "failure", "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"},
		{"grpc: no health service", bare, builtin(object{}), "failure", "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service grpc.health.v1.Health"},
		{"grpc: no token", locked, builtin(object{}), "failure", "error: health rpc probe failed: …Unauthenticated…who are you?…"},
		{"grpc: stopped", closed, within("1s", builtin(object{})), "failure", `timeout: failed to connect service "{AT}" within 1s: context deadline exceeded: dial tcp {AT}: connect: connection refused; waits before the next dial`},
		{"grpc: hangs", hangs, within("1s", builtin(object{})), "failure", "timeout: failed to connect service …"},
		{"grpc: TLS", good, builtin(object{"mode": "TLS"}), "success", "service healthy"},
		{"grpc: no TLS on a port with it", good, within("1s", builtin(object{})), "failure", "…"},
		{"grpc: TLS on a port without it", plain, within("1s", builtin(object{"mode": "TLS"})), "failure", "…"},
		{"grpc: nginx at the port", web, within("1s", builtin(object{})), "failure", "…"},
		{"grpc: cut answer", cut(t, plain, 9), within("1s", builtin(object{})), "failure", "…"},
		{"grpc-health: serving", plain, plugin(service("shop")), "success", `service "shop" is SERVING`},
		{"grpc-health: not serving", plain, plugin(service("mail")), "failure", `service "mail" is NOT_SERVING`},
		{"grpc-health: unknown service", plain, plugin(service("gone")), "failure", `service "gone" is not known to the health service: unknown service`},
		{"grpc-health: no health service", bare, plugin(object{}), "failure", "the server does not implement grpc.health.v1.Health: unknown service grpc.health.v1.Health"},
		{"grpc-health: no token", locked, plugin(object{}), "failure", "the call fails with UNAUTHENTICATED: 0 tokens: who are you?"},
		{"grpc-health: stopped", closed, plugin(object{}), "failure", "dial tcp {AT}: connect: connection refused"},
		{"grpc-health: hangs", hangs, within("1s", plugin(object{})), "failure", "no answer to the call; …"},
		{"grpc-health: nginx at the port", web, plugin(object{}), "failure", "…"},
		{"grpc-health: good certificate", good, trusted, "success", "the server is SERVING"},
		{"grpc-health: expired certificate", secured(expiredCert), trusted, "failure", `tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time … is after …: certificate 1 of 2, "CN=shop.test", ended 2 days ago`},
		{"grpc-health: wrong name", secured(wrongNameCert), trusted, "failure", "tls: failed to verify certificate: x509: certificate is valid for mail.test, not shop.test"},
	}
}
