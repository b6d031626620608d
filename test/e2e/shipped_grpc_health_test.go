//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
)

// guarded is an interceptor that refuses calls without the token.
func guarded(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if got := md.Get("authorization"); len(got) != 1 || got[0] != "Bearer open sesame" {
		return nil, status.Errorf(codes.Unauthenticated, "%d tokens: who are you?\n", len(got))
	}
	if got := md.Get("trace-bin"); len(got) != 1 || got[0] != "\x00\xff" {
		return nil, status.Errorf(codes.InvalidArgument, "trace-bin is %q", got)
	}
	return next(ctx, req)
}

// grpcServer starts a server of google.golang.org/grpc. It has a health service unless
// h is nil.
func grpcServer(t *testing.T, h healthpb.HealthServer, options ...grpc.ServerOption) string {
	t.Helper()
	return grpcServing(t, func(server *grpc.Server) {
		if h != nil {
			healthpb.RegisterHealthServer(server, h)
		}
	}, options...)
}

// grpcServing starts a server with the services that register adds.
func grpcServing(t *testing.T, register func(*grpc.Server), options ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	register(server)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// TestShippedGRPCHealth probes servers of google.golang.org/grpc.
func TestShippedGRPCHealth(t *testing.T) {
	t.Parallel()
	h := health.NewServer()
	h.SetServingStatus("shop", healthpb.HealthCheckResponse_SERVING)
	h.SetServingStatus("mail", healthpb.HealthCheckResponse_NOT_SERVING)
	h.SetServingStatus("news", healthpb.HealthCheckResponse_UNKNOWN)
	h.SetServingStatus("gone", healthpb.HealthCheckResponse_SERVICE_UNKNOWN)
	a, dir := newAuthority(t), t.TempDir()
	a.write(t, dir, 60)
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key"))
	if err != nil {
		t.Fatal(err)
	}
	plain, locked := grpcServer(t, h), grpcServer(t, h, grpc.UnaryInterceptor(guarded))
	secure := grpcServer(t, h, grpc.Creds(credentials.NewServerTLSFromCert(&cert)))
	ca := jsonText(t, a.pem)
	long := jsonText(t, strings.Repeat("~", 20000)) // continues in a second frame
	for _, c := range []struct{ name, address, config, result, text string }{
		{"the server", plain, `{}`, "success", "the server is SERVING"},
		{"service is serving", plain, `{"service":"shop"}`, "success", `service "shop" is SERVING`},
		{"service is not serving", plain, `{"service":"mail"}`, "failure", `service "mail" is NOT_SERVING`},
		{"service with unknown status", plain, `{"service":"news"}`, "unknown", `service "news" is UNKNOWN`},
		{"removed service", plain, `{"service":"gone"}`, "failure", `service "gone" is SERVICE_UNKNOWN`},
		{"unknown service", plain, `{"service":"lost"}`, "failure", `service "lost" is not known to the health service: unknown service`},
		{"several services", plain, `{"services":["shop","lost","","mail"]}`, "failure", `service "lost" is not known to the health service: unknown service; service "mail" is NOT_SERVING`},
		{"no health service", grpcServer(t, nil), `{}`, "failure", "the server does not implement grpc.health.v1.Health: unknown service"},
		{"requested metadata", locked, `{"services":["","shop"],"metadata":{"authorization":"Bearer open sesame","trace-bin":"AP8","x-long":` + long + `}}`, "success", "2 services are SERVING"},
		{"wrong metadata", locked, `{"metadata":{"authorization":"Bearer guess"}}`, "failure", "UNAUTHENTICATED: 1 tokens: who are you?"},
		{"missing metadata", locked, `{}`, "failure", "UNAUTHENTICATED: 0 tokens"},
		{"over TLS", secure, `{"tls":true,"tlsConfig":{"serverName":"db.internal","ca":` + ca + `}}`, "success", "SERVING"},
		{"over TLS with another name", secure, `{"tls":true,"tlsConfig":{"ca":` + ca + `}}`, "failure", "certificate"},
		{"over TLS, not verified", secure, `{"tls":true,"tlsConfig":{"insecureSkipVerify":true}}`, "success", "SERVING"},
		{"no reflection", plain, `{"reflection":true}`, "failure", "the server has no reflection: unknown service"},
		{"reflection", reflecting(t, reflection.RegisterV1), `{"reflection":true,"services":["shop.v1.Orders","shop.v1.Carts"]}`, "success", "the server has 3 services"},
		{"reflection of v1alpha", reflecting(t, v1alpha), `{"reflection":true,"services":["shop.v1.Orders"]}`, "success", "the server has 3 services"},
		{"reflection without a service", reflecting(t, reflection.Register), `{"reflection":true,"service":"shop.v1.Mail"}`, "failure", `the server does not have the service "shop.v1.Mail"; it has grpc.reflection.v1.ServerReflection, `},
		{"server is not gRPC", redis(t), `{}`, "failure", ""},
		{"connection refused", freeAddress(t), `{}`, "failure", "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, code := probeShipped(t, "grpc-health", c.address, c.config)
			want(t, v, code, c.result, c.text)
			if strings.Contains(v.Output, "guess") {
				t.Errorf("the output tells the metadata: %q", v.Output)
			}
		})
	}
}

// v1alpha registers the older reflection alone.
func v1alpha(s reflection.GRPCServer) {
	alpha.RegisterServerReflectionServer(s, reflection.NewServer(reflection.ServerOptions{Services: s}))
}

// reflecting starts a server with two services and the reflection that register adds.
func reflecting(t *testing.T, register func(reflection.GRPCServer)) string {
	t.Helper()
	return grpcServing(t, func(s *grpc.Server) {
		for _, name := range []string{"shop.v1.Orders", "shop.v1.Carts"} {
			s.RegisterService(&grpc.ServiceDesc{ServiceName: name, HandlerType: (*any)(nil)}, name)
		}
		register(s)
	})
}
