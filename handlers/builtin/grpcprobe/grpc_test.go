package grpcprobe_test

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

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/daeace23/prober/handlers/builtin/grpcprobe"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGRPC(t *testing.T) {
	const serving, notServing = healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING
	failing := func(err error) *rig.Health {
		return &rig.Health{Answer: func(context.Context, string) (healthpb.HealthCheckResponse_ServingStatus, error) { return 0, err }}
	}
	cases := []struct {
		name   string
		health *rig.Health
		result probe.Result
		output string
		reason probe.Reason
	}{
		{"#142 NOT_SERVING", rig.Answers(notServing), probe.Failure, `service unhealthy (responded with "NOT_SERVING")`, ""},
		{"#144 SERVING", rig.Answers(serving), probe.Success, "service healthy", ""},
		{"#235 UNIMPLEMENTED", nil, probe.Failure,
			"error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service grpc.health.v1.Health", probe.ReasonProtocol},
		{"#235 NOT_FOUND", failing(status.Error(codes.NotFound, "unknown service")), probe.Failure,
			"error: health rpc probe failed: rpc error: code = NotFound desc = unknown service", probe.ReasonProtocol},
		{"UNKNOWN", rig.Answers(healthpb.HealthCheckResponse_UNKNOWN), probe.Failure, `service unhealthy (responded with "UNKNOWN")`, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l, port := rig.Loopback(t)
			rig.ServeGRPC(t, l, c.health)
			h := rig.Prepare(t, grpcprobe.New(grpcprobe.Config{}), fmt.Sprintf(`{"port":%d}`, port))
			got, err := rig.Attempt(t, h, probe.Request{PodIP: "127.0.0.1"}, time.Minute)
			rig.Want(t, got, err, c.result, c.output)
			rig.WantReason(t, got, c.reason)
		})
	}
	t.Run("#144 SERVING of a named service, user agent", func(t *testing.T) {
		l, port := rig.Loopback(t)
		rig.ServeGRPC(t, l, &rig.Health{Answer: func(ctx context.Context, service string) (healthpb.HealthCheckResponse_ServingStatus, error) {
			md, _ := metadata.FromIncomingContext(ctx)
			if agent := strings.Join(md["user-agent"], ""); service != "web" || !strings.HasPrefix(agent, "kube-probe/1.36 ") {
				return 0, status.Errorf(codes.InvalidArgument, "service %q, agent %q", service, agent)
			}
			return serving, nil
		}})
		h := rig.Prepare(t, grpcprobe.New(grpcprobe.Config{}), fmt.Sprintf(`{"port":%d,"service":"web"}`, port))
		got, err := rig.Attempt(t, h, probe.Request{PodIP: "127.0.0.1"}, time.Minute)
		rig.Want(t, got, err, probe.Success, "service healthy")
	})
	t.Run("invalid port", func(t *testing.T) {
		h := rig.Prepare(t, grpcprobe.New(grpcprobe.Config{}), `{"port":66666}`)
		if got, err := rig.Attempt(t, h, probe.Request{}, time.Minute); err == nil || got.Result != probe.Unknown {
			t.Errorf("got %v, %v; want an error", got.Result, err)
		}
	})
	t.Run("a socket", func(t *testing.T) {
		path := rig.SocketPath(t)
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		rig.ServeGRPC(t, l, rig.Answers(serving))
		got, err := rig.Attempt(t, grpcprobe.New(grpcprobe.Config{}), probe.Request{Target: probe.Target{Unix: path}}, time.Minute)
		rig.Want(t, got, err, probe.Success, "service healthy")
	})
}

func TestGRPCTimeouts(t *testing.T) {
	t.Run("#140 a closed port takes the whole timeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var network rig.Network
			h := rig.Prepare(t, grpcprobe.New(grpcprobe.Config{DialContext: network.DialContext}), `{"port":32}`)
			start := time.Now()
			got, err := rig.Attempt(t, h, probe.Request{PodIP: "10.0.0.1"}, time.Second)
			rig.Want(t, got, err, probe.Failure, `timeout: failed to connect service "10.0.0.1:32" within 1s: context deadline exceeded`)
			rig.WantReason(t, got, probe.ReasonConnectRefused)
			if took := time.Since(start); took != time.Second {
				t.Errorf("took %v, want 1s", took)
			}
		})
	})
	t.Run("#141 a plain HTTP/1 server is a failure", func(t *testing.T) {
		_, port := rig.Serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
		h := rig.Prepare(t, grpcprobe.New(grpcprobe.Config{}), fmt.Sprintf(`{"port":%d}`, port))
		got, err := rig.Attempt(t, h, probe.Request{PodIP: "127.0.0.1"}, 300*time.Millisecond)
		rig.Want(t, got, err, probe.Failure, fmt.Sprintf(`timeout: failed to connect service "127.0.0.1:%d" within 300ms: context deadline exceeded`, port))
	})
	t.Run("#143 a server that sleeps is a failure", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var network rig.Network
			l, err := network.Listen("tcp", "10.0.0.1:80")
			if err != nil {
				t.Fatal(err)
			}
			rig.ServeGRPC(t, l, &rig.Health{Answer: func(ctx context.Context, _ string) (healthpb.HealthCheckResponse_ServingStatus, error) {
				select {
				case <-time.After(4 * time.Second):
				case <-ctx.Done():
					return 0, ctx.Err()
				}
				return healthpb.HealthCheckResponse_SERVING, nil
			}})
			h := rig.Prepare(t, grpcprobe.New(grpcprobe.Config{DialContext: network.DialContext}), `{"port":80}`)
			got, err := rig.Attempt(t, h, probe.Request{PodIP: "10.0.0.1"}, 2*time.Second)
			rig.Want(t, got, err, probe.Failure, "timeout: health rpc did not complete within 2s")
			rig.WantReason(t, got, probe.ReasonDeadline)
		})
	})
	t.Run("cancelled attempt is an error", func(t *testing.T) {
		var network rig.Network
		network.BlackHole("10.0.0.1:80")
		h := rig.Prepare(t, grpcprobe.New(grpcprobe.Config{DialContext: network.DialContext}), `{"port":80}`)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got, err := h.Probe(ctx, probe.Request{PodIP: "10.0.0.1"}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, %v", got.Result, err)
		}
	})
}

func TestGRPCMode(t *testing.T) {
	// Only its untrusted certificate is used.
	s := httptest.NewTLSServer(nil)
	t.Cleanup(s.Close)
	l, port := rig.Loopback(t)
	rig.ServeGRPC(t, l, rig.Answers(healthpb.HealthCheckResponse_SERVING), grpc.Creds(credentials.NewServerTLSFromCert(&s.TLS.Certificates[0])))
	t.Run("#262 TLS", func(t *testing.T) {
		h := rig.Prepare(t, grpcprobe.New(grpcprobe.Config{}), fmt.Sprintf(`{"port":%d,"mode":"TLS"}`, port))
		var names []string
		req := probe.Request{PodIP: "127.0.0.1", Trace: func(e probe.TraceEvent) { names = append(names, e.Name) }}
		got, err := rig.Attempt(t, h, req, time.Minute)
		rig.Want(t, got, err, probe.Success, "service healthy")
		if got := strings.Join(names, ", "); got != "connect, tls, settings, call" {
			t.Errorf("phases %s", got)
		}
	})
	plain, plainPort := rig.Loopback(t)
	rig.ServeGRPC(t, plain, rig.Answers(healthpb.HealthCheckResponse_SERVING))
	for name, c := range map[string]struct {
		mode   string
		compat probe.Compat
		port   int
	}{
		"#262 Plaintext":                 {"Plaintext", 0, port},
		"#262 TLS with a server without": {"TLS", 0, plainPort},
		"TLS that is ignored":            {"TLS", probe.CompatIgnoreProtocol, port},
	} {
		t.Run(name, func(t *testing.T) {
			h := rig.Prepare(t, grpcprobe.New(grpcprobe.Config{Compat: c.compat}), fmt.Sprintf(`{"port":%d,"mode":%q}`, c.port, c.mode))
			got, err := rig.Attempt(t, h, probe.Request{PodIP: "127.0.0.1"}, 200*time.Millisecond)
			if err != nil || got.Result != probe.Failure {
				t.Errorf("got %v, %v; want failure", got.Result, err)
			}
		})
	}
}

func TestGRPCSuite(t *testing.T) {
	probetest.HandlerSuite(t, func(t *testing.T) probetest.HandlerUnderTest {
		l, port := rig.Loopback(t)
		rig.ServeGRPC(t, l, &rig.Health{Answer: func(ctx context.Context, service string) (healthpb.HealthCheckResponse_ServingStatus, error) {
			switch service {
			case "hang":
				<-ctx.Done()
				return 0, ctx.Err()
			case "flood":
				return 0, status.Error(codes.Internal, rig.Flood)
			}
			return healthpb.HealthCheckResponse_SERVING, nil
		}})
		to := func(service string) probe.Handler {
			return rig.Prepare(t, grpcprobe.New(grpcprobe.Config{}), fmt.Sprintf(`{"port":%d,"service":%q}`, port, service))
		}
		return probetest.HandlerUnderTest{
			Good:     to(""),
			Hanging:  to("hang"),
			Flooding: to("flood"),
			Erring:   rig.Prepare(t, grpcprobe.New(grpcprobe.Config{}), `{"port":-1}`),
			Request:  probe.Request{PodIP: "127.0.0.1"},
		}
	})
}

func TestBindGRPC(t *testing.T) {
	s := httptest.NewTLSServer(nil) // only for its certificate
	t.Cleanup(s.Close)
	secure := grpc.Creds(credentials.NewServerTLSFromCert(&s.TLS.Certificates[0]))
	for name, options := range map[string][]grpc.ServerOption{"plaintext": nil, "TLS": {secure}} {
		t.Run(name, func(t *testing.T) {
			l, port := rig.Loopback(t)
			rig.ServeGRPC(t, l, rig.Answers(healthpb.HealthCheckResponse_SERVING), options...)
			h, err := grpcprobe.New(grpcprobe.Config{}).Bind(grpcprobe.Action{Host: "127.0.0.1", Port: port, TLS: options != nil})
			if err != nil {
				t.Fatal(err)
			}
			got, err := rig.Attempt(t, h, probe.Request{}, time.Minute)
			rig.Want(t, got, err, probe.Success, "service healthy")
		})
	}
}

// TestDeniedDialEndsAttempt checks that an attempt ends when the guard refuses its dial, because the
// guard would refuse every further dial.
func TestDeniedDialEndsAttempt(t *testing.T) {
	for _, compat := range []probe.Compat{0, probe.CompatGRPCLibrary} {
		ctx, cancel := context.WithTimeout(netns.WithGuard(t.Context(), func(netns.To) error { return errors.New("not there") }), 10*time.Minute)
		defer cancel()
		h, err := grpcprobe.New(grpcprobe.Config{Compat: compat}).Bind(grpcprobe.Action{Host: "127.0.0.1", Port: 80})
		if err != nil {
			t.Fatal(err)
		}
		out, err := h.Probe(ctx, probe.Request{Spec: probe.Spec{Timeout: 10 * time.Minute}})
		if err != nil || out.Result != probe.Failure || out.Reason != probe.ReasonDenied || !strings.HasSuffix(out.Output, "not there") {
			t.Errorf("compat %v: %+v, %v", compat, out, err)
		}
	}
}
