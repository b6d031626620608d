package sidecar

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/daeace23/prober/probe"
)

// healthServer implements grpc.health.v1.Health. Its services are the probes. Watch and List are not
// implemented.
type healthServer struct {
	grpc_health_v1.UnimplementedHealthServer
	table *table
}

// Check implements [grpc_health_v1.HealthServer]. It responds before the deadline of the call, or with
// DEADLINE_EXCEEDED.
func (h *healthServer) Check(ctx context.Context, req *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	f := h.table.fly(req.GetService())
	if f == nil {
		return nil, status.Error(codes.NotFound, unknown(req.GetService(), h.table.names()))
	}
	v, err := f.wait(ctx)
	if err != nil {
		return nil, status.FromContextError(err).Err()
	}
	_ = grpc.SetHeader(ctx, metadata.Pairs(ResultHeader, v.Result.String())) // an error means that the client has left
	return &grpc_health_v1.HealthCheckResponse{Status: servingStatus(v)}, nil
}

// servingStatus returns SERVING for an undecided verdict, as the kubelet counts every other status and every
// error as a failure.
func servingStatus(v Verdict) grpc_health_v1.HealthCheckResponse_ServingStatus {
	switch {
	case !v.Failed:
		return grpc_health_v1.HealthCheckResponse_SERVING
	case v.Result == probe.Unknown:
		return grpc_health_v1.HealthCheckResponse_UNKNOWN
	default:
		return grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
}
