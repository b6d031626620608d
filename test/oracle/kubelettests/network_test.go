package kubelettests

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestTCP(t *testing.T) {
	port := portOf(serve(t, func(http.ResponseWriter, *http.Request) {}))
	ports := []v1.ContainerPort{{Name: "found", ContainerPort: int32(port)}, {Name: "bar", ContainerPort: 1}}
	number := ""
	if before("1.37") {
		number = "success"
	}
	for _, c := range []struct {
		name   string
		port   intstr.IntOrString
		result string // "" for an error
	}{
		{"#138 a server", intstr.FromInt(port), "success"},
		{"#72 port -1", intstr.FromInt(-1), ""},
		{"#72 no port", intstr.FromString(""), ""},
		{"#72 the text -1", intstr.FromString("-1"), ""},
		{"#72 #145 an unknown name", intstr.FromString("not-found"), ""},
		{"#72 #145 #146 a name", intstr.FromString("found"), "success"},
		{"#72 #146 a number", intstr.FromInt(port), "success"},
		{"#72 the text of a number", intstr.FromString(fmt.Sprint(port)), number},
		{"#146 a number that is no port", intstr.FromInt(66666), ""},
		{"#146 neither number nor text", intstr.IntOrString{Type: 2, IntVal: int32(port)}, ""},
	} {
		eachHandler(t, c.name, func(t *testing.T, ask func(request) answer) {
			got := ask(request{
				handler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: c.port}}, ports: ports, podIP: "127.0.0.1", timeout: 10 * time.Second,
			})
			if c.result != "" {
				got.want(t, c.result, "")
			} else if got.err == nil {
				t.Errorf("no error: %+v", got)
			}
		})
	}
}

// grpcServer answers every check with a status, or never.
type grpcServer struct {
	health.UnimplementedHealthServer
	status health.HealthCheckResponse_ServingStatus
	hangs  bool
	echoes bool // answer with an error that has the name of the service
}

func (s grpcServer) Check(ctx context.Context, req *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	if s.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if s.echoes {
		return nil, status.Error(codes.NotFound, req.Service)
	}
	return &health.HealthCheckResponse{Status: s.status}, nil
}

func serveGRPC(t *testing.T, s grpcServer) (port int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	health.RegisterHealthServer(server, s)
	go func() { _ = server.Serve(listener) }() // ends when the server is stopped
	t.Cleanup(server.Stop)
	return listener.Addr().(*net.TCPAddr).Port
}

func TestGRPC(t *testing.T) {
	serving := health.HealthCheckResponse_SERVING
	for _, c := range []struct {
		name   string
		ip     string
		port   int
		result string
		want   string
	}{
		{"#140 a closed port", "127.0.0.1", 32, "failure", `=timeout: failed to connect service "127.0.0.1:32" within 1s: context deadline exceeded`},
		{"#141 an HTTP server", "127.0.0.1", portOf(serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("res")) })), "failure", ""},
		{"#142 NOT_SERVING", "127.0.0.1", serveGRPC(t, grpcServer{status: health.HealthCheckResponse_NOT_SERVING}), "failure", `=service unhealthy (responded with "NOT_SERVING")`},
		{"#143 no answer in time", "127.0.0.1", serveGRPC(t, grpcServer{hangs: true}), "failure", "=timeout: health rpc did not complete within 1s"},
		{"#144 SERVING", "127.0.0.1", serveGRPC(t, grpcServer{status: serving}), "success", ""},
		{"#144 SERVING on any port", "127.0.0.1", serveGRPC(t, grpcServer{status: serving}), "success", ""},
	} {
		eachHandler(t, c.name, func(t *testing.T, ask func(request) answer) {
			ask(request{
				handler: v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: int32(c.port)}}, podIP: c.ip, timeout: time.Second,
			}).want(t, c.result, c.want)
		})
	}
}
