package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

var flood = strings.Repeat("x", 11<<10)

func TestHTTPSuite(t *testing.T) {
	probetest.HandlerSuite(t, func(t *testing.T) probetest.HandlerUnderTest {
		_, port := serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/hang":
				<-r.Context().Done()
			case "/flood":
				_, _ = io.WriteString(w, flood)
			}
		})
		to := func(path string) probe.Handler {
			return prepare(t, builtin.NewHTTP(builtin.Config{}), fmt.Sprintf(`{"port":%d,"path":%q}`, port, path))
		}
		return probetest.HandlerUnderTest{
			Good:     to("/"),
			Hanging:  to("/hang"),
			Flooding: to("/flood"),
			Erring:   prepare(t, builtin.NewHTTP(builtin.Config{}), `{"port":"none"}`),
			Request:  probe.Request{PodIP: "127.0.0.1"},
		}
	})
}

func TestTCPSuite(t *testing.T) {
	probetest.HandlerSuite(t, func(t *testing.T) probetest.HandlerUnderTest {
		port := portOf(t, listen(t, "tcp", "127.0.0.1:0"))
		var network pipeNetwork
		network.BlackHole("127.0.0.1:1")
		return probetest.HandlerUnderTest{
			Good:    prepare(t, builtin.NewTCP(builtin.Config{}), fmt.Sprintf(`{"port":%d}`, port)),
			Hanging: prepare(t, builtin.NewTCP(builtin.Config{DialContext: network.DialContext}), `{"port":1}`),
			Erring:  prepare(t, builtin.NewTCP(builtin.Config{}), `{"port":"none"}`),
			Request: probe.Request{PodIP: "127.0.0.1"},
		}
	})
}

func TestGRPCSuite(t *testing.T) {
	probetest.HandlerSuite(t, func(t *testing.T) probetest.HandlerUnderTest {
		l, port := loopback(t)
		serveGRPC(t, l, &health{check: func(ctx context.Context, service string) (healthpb.HealthCheckResponse_ServingStatus, error) {
			switch service {
			case "hang":
				<-ctx.Done()
				return 0, ctx.Err()
			case "flood":
				return 0, status.Error(codes.Internal, flood)
			}
			return healthpb.HealthCheckResponse_SERVING, nil
		}})
		to := func(service string) probe.Handler {
			return prepare(t, builtin.NewGRPC(builtin.Config{}), fmt.Sprintf(`{"port":%d,"service":%q}`, port, service))
		}
		return probetest.HandlerUnderTest{
			Good:     to(""),
			Hanging:  to("hang"),
			Flooding: to("flood"),
			Erring:   prepare(t, builtin.NewGRPC(builtin.Config{}), `{"port":-1}`),
			Request:  probe.Request{PodIP: "127.0.0.1"},
		}
	})
}

func TestExecSuite(t *testing.T) {
	probetest.HandlerSuite(t, func(t *testing.T) probetest.HandlerUnderTest {
		host := new(builtin.HostRunner)
		return probetest.HandlerUnderTest{
			Good:     execHandler(t, host, "true"),
			Hanging:  execHandler(t, host, "sh", "-c", "sleep 300 & sleep 300"),
			Flooding: execHandler(t, host, "head", "-c", "20000", "/dev/zero"),
			Erring:   execHandler(t, host, "/no/such/command"),
		}
	})
}

func TestScriptedRunnerSuite(t *testing.T) {
	probetest.HandlerSuite(t, func(t *testing.T) probetest.HandlerUnderTest {
		return probetest.HandlerUnderTest{
			Good:     execHandler(t, &scriptedRunner{}, "x"),
			Flooding: execHandler(t, &scriptedRunner{output: flood, err: &builtin.CommandExitError{Code: 1}}, "x"),
			Erring:   execHandler(t, &scriptedRunner{err: errors.New("no such container")}, "x"),
		}
	})
}
