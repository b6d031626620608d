package grpcprobe_test

import (
	"context"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/daeace23/prober/handlers/builtin/grpcprobe"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/probe"
)

// TestGRPCHostTroubleOfLastDial checks that the last failed dial is the cause of a timeout, unless the
// target has answered. grpc-go dials again until the timeout.
func TestGRPCHostTroubleOfLastDial(t *testing.T) {
	const serving = healthpb.HealthCheckResponse_SERVING
	full, refused := rig.DialError("socket", syscall.EMFILE), rig.DialError("connect", syscall.ECONNREFUSED)
	hanging := &rig.Health{Answer: func(ctx context.Context, _ string) (healthpb.HealthCheckResponse_ServingStatus, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}}
	gone := &rig.Health{Answer: func(context.Context, string) (healthpb.HealthCheckResponse_ServingStatus, error) {
		return 0, status.Error(codes.Unavailable, "going away")
	}}
	for _, c := range []struct {
		name          string
		first, second error       // errors of the dials; if second is nil, the second dial connects
		health        *rig.Health // nil means no health service
		want          probe.Result
	}{
		{"refused, then no descriptor", refused, full, nil, probe.Unknown},
		{"no descriptor, then refused", full, refused, nil, probe.Failure},
		{"no descriptor, then no time", full, nil, hanging, probe.Unknown},
		{"no descriptor, then a bad answer", full, nil, nil, probe.Failure},
		{"no descriptor, then a good answer", full, nil, rig.Answers(serving), probe.Success},
		{"no descriptor, then a server that is gone", full, nil, gone, probe.Failure},
		{"refused, then no time", refused, nil, hanging, probe.Failure},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var network rig.Network
				l, err := network.Listen("tcp", "10.0.0.1:80")
				if err != nil {
					t.Fatal(err)
				}
				rig.ServeGRPC(t, l, c.health)
				dials := 0
				cfg := grpcprobe.Config{DialContext: func(ctx context.Context, nw, address string) (net.Conn, error) {
					switch dials++; {
					case dials == 1:
						return nil, c.first
					case c.second != nil:
						return nil, c.second
					}
					return network.DialContext(ctx, nw, address)
				}}
				// The second dial comes after 0.8 to 1.2 s, the third another 1.3 s later.
				got, err := rig.Attempt(t, rig.Prepare(t, grpcprobe.New(cfg), `{"port":80}`), probe.Request{PodIP: "10.0.0.1"}, 1500*time.Millisecond)
				trouble := c.want == probe.Unknown
				if got.Result != c.want || (err != nil) != trouble || trouble && probe.ReasonOf(err) != probe.ReasonHostResources || dials != 2 {
					t.Errorf("got %+v, error %v after %d dials; want %v", got, err, dials, c.want)
				}
			})
		})
	}
}
