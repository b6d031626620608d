package grpcprobe_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/daeace23/prober/handlers/builtin/grpcprobe"
	"github.com/daeace23/prober/probe"
)

// ExampleHandler_Bind checks single services of a server.
func ExampleHandler_Bind() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server, services := grpc.NewServer(), health.NewServer()
	services.SetServingStatus("checkout", healthpb.HealthCheckResponse_NOT_SERVING)
	healthpb.RegisterHealthServer(server, services)
	served := make(chan error)
	go func() { served <- server.Serve(l) }()

	handler := grpcprobe.New(grpcprobe.Config{})
	for _, service := range []string{"", "checkout"} {
		h, err := handler.Bind(grpcprobe.Action{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, Service: service})
		if err != nil {
			panic(err)
		}
		out, err := h.Probe(context.Background(), probe.Request{})
		fmt.Println(out.Result, out.Output, err)
	}
	server.Stop()
	fmt.Println(<-served)
	// Output:
	// success service healthy <nil>
	// failure service unhealthy (responded with "NOT_SERVING") <nil>
	// <nil>
}
