package grpcprobe_test

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"testing"

	"google.golang.org/grpc"

	"github.com/daeace23/prober/handlers/builtin/grpcprobe"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/probe"
)

func TestGRPCHangIsExplained(t *testing.T) {
	handler := func(t *testing.T, port int, mode string) probe.Handler {
		return rig.PrepareAt(t, grpcprobe.New(grpcprobe.Config{}), fmt.Sprintf(`{"port":%d%s}`, port, mode), probe.Target{Host: "127.0.0.1"})
	}
	t.Run("no settings", func(t *testing.T) {
		rig.WantWaiting(t, rig.Hang(t, handler(t, rig.Peer(t, rig.Silent), "")), `^http2 tcp .*: waiting for \d+ms; no HTTP/2 settings from the server; connected after .*`)
	})
	t.Run("no answer", func(t *testing.T) {
		l, port := rig.Loopback(t)
		rig.ServeGRPC(t, l, nil, grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error { <-s.Context().Done(); return nil }))
		rig.WantWaiting(t, rig.Hang(t, handler(t, port, "")), `^grpc tcp .*: waiting for \d+ms; no answer to grpc.health.v1.Health/Check`)
	})
	t.Run("nobody listens", func(t *testing.T) {
		l, port := rig.Loopback(t)
		_ = l.Close()
		rig.WantWaiting(t, rig.Hang(t, handler(t, port, "")), `^dial tcp .*: waiting for .*: connection refused; waits before the next dial$`)
	})
	t.Run("no route", func(t *testing.T) {
		dial := func(context.Context, string, string) (net.Conn, error) { return nil, syscall.EHOSTUNREACH }
		h := rig.PrepareAt(t, grpcprobe.New(grpcprobe.Config{DialContext: dial}), `{"port":80}`, probe.Target{Host: "127.0.0.1"})
		rig.WantWaiting(t, rig.Hang(t, h), `^dial tcp .*: waiting for .*; no route to host; waits before the next dial$`)
	})
}
