package rig

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// Health is a health service that calls a function.
type Health struct {
	healthpb.UnimplementedHealthServer
	Answer func(ctx context.Context, service string) (healthpb.HealthCheckResponse_ServingStatus, error)
}

// Check implements [healthpb.HealthServer].
func (h *Health) Check(ctx context.Context, req *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	s, err := h.Answer(ctx, req.GetService())
	return &healthpb.HealthCheckResponse{Status: s}, err
}

// Answers returns a health service that always answers s.
func Answers(s healthpb.HealthCheckResponse_ServingStatus) *Health {
	return &Health{Answer: func(context.Context, string) (healthpb.HealthCheckResponse_ServingStatus, error) { return s, nil }}
}

// ServeGRPC serves h on l until the test ends. If h is nil, the server has no health service.
func ServeGRPC(t testing.TB, l net.Listener, h *Health, options ...grpc.ServerOption) {
	t.Helper()
	s := grpc.NewServer(options...)
	if h != nil {
		healthpb.RegisterHealthServer(s, h)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
}
