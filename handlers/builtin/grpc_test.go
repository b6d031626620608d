package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/probe"
)

// health is a health service made of one function.
type health struct {
	healthpb.UnimplementedHealthServer
	check func(ctx context.Context, service string) (healthpb.HealthCheckResponse_ServingStatus, error)
}

func (h *health) Check(ctx context.Context, req *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	s, err := h.check(ctx, req.GetService())
	return &healthpb.HealthCheckResponse{Status: s}, err
}

// answers returns a health service that always answers s.
func answers(s healthpb.HealthCheckResponse_ServingStatus) *health {
	return &health{check: func(context.Context, string) (healthpb.HealthCheckResponse_ServingStatus, error) { return s, nil }}
}

// serveGRPC serves h, or nothing if h is nil, on l until the test ends.
func serveGRPC(t testing.TB, l net.Listener, h *health, options ...grpc.ServerOption) {
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

// loopback returns a listener on loopback and its port.
func loopback(t testing.TB) (l net.Listener, port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l, portOf(t, l.Addr())
}

func TestGRPC(t *testing.T) {
	const serving, notServing = healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING
	failing := func(err error) *health {
		return &health{check: func(context.Context, string) (healthpb.HealthCheckResponse_ServingStatus, error) { return 0, err }}
	}
	cases := []struct {
		name   string
		health *health
		result probe.Result
		output string
		reason probe.Reason
	}{
		{"#142 NOT_SERVING", answers(notServing), probe.Failure, `service unhealthy (responded with "NOT_SERVING")`, ""},
		{"#144 SERVING", answers(serving), probe.Success, "service healthy", ""},
		{"#235 UNIMPLEMENTED", nil, probe.Failure,
			"error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service grpc.health.v1.Health", probe.ReasonProtocol},
		{"#235 NOT_FOUND", failing(status.Error(codes.NotFound, "unknown service")), probe.Failure,
			"error: health rpc probe failed: rpc error: code = NotFound desc = unknown service", probe.ReasonProtocol},
		{"UNKNOWN", answers(healthpb.HealthCheckResponse_UNKNOWN), probe.Failure, `service unhealthy (responded with "UNKNOWN")`, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l, port := loopback(t)
			serveGRPC(t, l, c.health)
			h := prepare(t, builtin.NewGRPC(builtin.Config{}), fmt.Sprintf(`{"port":%d}`, port))
			got, err := attempt(t, h, probe.Request{PodIP: "127.0.0.1"}, time.Minute)
			want(t, got, err, c.result, c.output)
			wantReason(t, got, c.reason)
		})
	}
	t.Run("#144 SERVING of a named service, user agent", func(t *testing.T) {
		l, port := loopback(t)
		serveGRPC(t, l, &health{check: func(ctx context.Context, service string) (healthpb.HealthCheckResponse_ServingStatus, error) {
			md, _ := metadata.FromIncomingContext(ctx)
			if agent := strings.Join(md["user-agent"], ""); service != "web" || !strings.HasPrefix(agent, "kube-probe/1.36 ") {
				return 0, status.Errorf(codes.InvalidArgument, "service %q, agent %q", service, agent)
			}
			return serving, nil
		}})
		h := prepare(t, builtin.NewGRPC(builtin.Config{}), fmt.Sprintf(`{"port":%d,"service":"web"}`, port))
		got, err := attempt(t, h, probe.Request{PodIP: "127.0.0.1"}, time.Minute)
		want(t, got, err, probe.Success, "service healthy")
	})
	t.Run("invalid port", func(t *testing.T) {
		h := prepare(t, builtin.NewGRPC(builtin.Config{}), `{"port":66666}`)
		if got, err := attempt(t, h, probe.Request{}, time.Minute); err == nil || got.Result != probe.Unknown {
			t.Errorf("got %v, %v; want an error", got.Result, err)
		}
	})
	t.Run("a socket", func(t *testing.T) {
		path := socketPath(t)
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		serveGRPC(t, l, answers(serving))
		got, err := attempt(t, builtin.NewGRPC(builtin.Config{}), probe.Request{Target: probe.Target{Unix: path}}, time.Minute)
		want(t, got, err, probe.Success, "service healthy")
	})
}

func TestGRPCTimeouts(t *testing.T) {
	t.Run("#140 a closed port takes the whole timeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var network pipeNetwork
			h := prepare(t, builtin.NewGRPC(builtin.Config{DialContext: network.DialContext}), `{"port":32}`)
			start := time.Now()
			got, err := attempt(t, h, probe.Request{}, time.Second)
			want(t, got, err, probe.Failure, `timeout: failed to connect service ":32" within 1s: context deadline exceeded`)
			wantReason(t, got, probe.ReasonConnectRefused)
			if took := time.Since(start); took != time.Second {
				t.Errorf("took %v, want 1s", took)
			}
		})
	})
	t.Run("#141 a plain HTTP/1 server is a failure", func(t *testing.T) {
		_, port := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
		h := prepare(t, builtin.NewGRPC(builtin.Config{}), fmt.Sprintf(`{"port":%d}`, port))
		got, err := attempt(t, h, probe.Request{PodIP: "127.0.0.1"}, 300*time.Millisecond)
		want(t, got, err, probe.Failure, fmt.Sprintf(`timeout: failed to connect service "127.0.0.1:%d" within 300ms: context deadline exceeded`, port))
	})
	t.Run("#143 a server that sleeps is a failure", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var network pipeNetwork
			l, err := network.Listen("tcp", "10.0.0.1:80")
			if err != nil {
				t.Fatal(err)
			}
			serveGRPC(t, l, &health{check: func(ctx context.Context, _ string) (healthpb.HealthCheckResponse_ServingStatus, error) {
				select {
				case <-time.After(4 * time.Second):
				case <-ctx.Done():
					return 0, ctx.Err()
				}
				return healthpb.HealthCheckResponse_SERVING, nil
			}})
			h := prepare(t, builtin.NewGRPC(builtin.Config{DialContext: network.DialContext}), `{"port":80}`)
			got, err := attempt(t, h, probe.Request{PodIP: "10.0.0.1"}, 2*time.Second)
			want(t, got, err, probe.Failure, "timeout: health rpc did not complete within 2s")
			wantReason(t, got, probe.ReasonDeadline)
		})
	})
	t.Run("cancelled attempt is an error", func(t *testing.T) {
		var network pipeNetwork
		network.BlackHole("10.0.0.1:80")
		h := prepare(t, builtin.NewGRPC(builtin.Config{DialContext: network.DialContext}), `{"port":80}`)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got, err := h.Probe(ctx, probe.Request{PodIP: "10.0.0.1"}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, %v", got.Result, err)
		}
	})
}

func TestGRPCMode(t *testing.T) {
	// Only for its certificate, which is not trusted.
	s := httptest.NewTLSServer(nil)
	t.Cleanup(s.Close)
	l, port := loopback(t)
	serveGRPC(t, l, answers(healthpb.HealthCheckResponse_SERVING), grpc.Creds(credentials.NewServerTLSFromCert(&s.TLS.Certificates[0])))
	config := fmt.Sprintf(`{"port":%d,"mode":%%q}`, port)
	t.Run("TLS", func(t *testing.T) {
		h := prepare(t, builtin.NewGRPC(builtin.Config{}), fmt.Sprintf(config, "TLS"))
		var names []string
		req := probe.Request{PodIP: "127.0.0.1", Trace: func(e probe.TraceEvent) { names = append(names, e.Name) }}
		got, err := attempt(t, h, req, time.Minute)
		want(t, got, err, probe.Success, "service healthy")
		if got := strings.Join(names, ", "); got != "connect, tls, first byte" {
			t.Errorf("phases %s", got)
		}
	})
	t.Run("Plaintext", func(t *testing.T) {
		h := prepare(t, builtin.NewGRPC(builtin.Config{}), fmt.Sprintf(config, "Plaintext"))
		got, err := attempt(t, h, probe.Request{PodIP: "127.0.0.1"}, 200*time.Millisecond)
		if err != nil || got.Result != probe.Failure {
			t.Errorf("got %v, %v; want failure", got.Result, err)
		}
	})
}
