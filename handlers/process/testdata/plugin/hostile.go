package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/daeace23/prober/internal/pluginpb"
)

// serveHostile serves without the SDK. The config selects how it violates the contract.
func serveHostile(manifest string) {
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion: pluginpb.ProtocolVersion, MagicCookieKey: pluginpb.CookieKey, MagicCookieValue: pluginpb.CookieValue,
		},
		Plugins:    goplugin.PluginSet{"prober": hostilePlugin{server: &hostile{manifest: manifest}}},
		GRPCServer: goplugin.DefaultGRPCServer,
	})
}

type hostilePlugin struct {
	goplugin.NetRPCUnsupportedPlugin
	server *hostile
}

func (p hostilePlugin) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	pluginpb.RegisterPluginServer(s, p.server)
	return nil
}

func (hostilePlugin) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, os.ErrInvalid
}

type hostile struct {
	pluginpb.UnimplementedPluginServer
	manifest string
}

func (h *hostile) Describe(context.Context, *pluginpb.DescribeRequest) (*pluginpb.DescribeResponse, error) {
	manifest := h.manifest
	switch os.Getenv("DESCRIBE") {
	case "huge":
		manifest = strings.Repeat("# much\n", 1<<20)
	case "garbage":
		manifest = "\xff\xfe{{{"
	case "long":
		return nil, status.Error(codes.Internal, strings.Repeat("long\x1b[31m ", 1000))
	}
	return &pluginpb.DescribeResponse{Abi: 1, Manifest: []byte(manifest)}, nil
}

// Probe violates the contract.
func (h *hostile) Probe(q *pluginpb.ProbeRequest, stream grpc.ServerStreamingServer[pluginpb.ProbeEvent]) error {
	answer := func(doc string) error {
		return stream.Send(&pluginpb.ProbeEvent{Event: &pluginpb.ProbeEvent_Verdict{Verdict: &pluginpb.Verdict{Result: []byte(doc)}}})
	}
	_, mode, _ := bytes.Cut(q.GetRequest(), []byte(`"mode":"`))
	mode, _, _ = bytes.Cut(mode, []byte(`"`))
	switch string(mode) {
	case "huge":
		return answer(`{"message":"` + strings.Repeat("huge", 1<<20) + `"}`)
	case "colour":
		return answer(`{"message":"it is red","colour":"red"}`)
	case "fat":
		return answer(`{"message":"` + strings.Repeat("fat!", 1<<15) + `"}`)
	case "metrics":
		return answer(`{"metrics":[` + strings.Repeat(`{"name":"m","value":1},`, 30_000) + `{"name":"m","value":1}]}`)
	case "many":
		return answer(`{"metrics":[` + strings.Repeat(`{"name":"m","value":1},`, 2000) + `{"name":"m","value":1}]}`)
	case "nan":
		return answer(`{"metrics":[{"name":"m","value":NaN}]}`)
	case "infinite":
		return answer(`{"metrics":[{"name":"m","value":1e999}]}`)
	case "negative":
		return answer(`{"metrics":[{"name":"m","value":-1.5}]}`)
	case "utf8":
		return answer("{\"message\":\"\xff\xfe\"}")
	case "deep":
		return answer(strings.Repeat(`{"details":`, 10_000))
	case "endless":
		for stream.Send(&pluginpb.ProbeEvent{}) == nil {
		}
	case "bulky":
		line := &pluginpb.LogLine{Line: strings.Repeat("b", 1<<19)}
		for stream.Send(&pluginpb.ProbeEvent{Event: &pluginpb.ProbeEvent_Log{Log: line}}) == nil {
		}
	case "headers":
		_ = stream.SetHeader(metadata.Pairs("x", strings.Repeat("h", 8<<20)))
		return answer(`{"message":"ok"}`)
	case "status":
		return status.Error(codes.FailedPrecondition, strings.Repeat("status\x1b[31m ", 4000))
	case "deadline":
		return status.Error(codes.DeadlineExceeded, "so you say")
	case "unavailable":
		return status.Error(codes.Unavailable, "not now")
	case "none": // ends without a verdict
		return nil
	case "late":
		_ = stream.SendHeader(nil)
		<-stream.Context().Done()
		time.Sleep(50 * time.Millisecond)
		_ = answer(`{"message":"late"}`)
	case "relisten":
		relisten()
	default:
		return answer(`{"message":"ok"}`)
	}
	return nil
}

// relisten closes every socket of this process, and listens again at the same address.
func relisten() {
	for fd := 4; fd < 64; fd++ {
		_ = syscall.Shutdown(fd, syscall.SHUT_RDWR)
	}
	folder := os.Getenv("PLUGIN_UNIX_SOCKET_DIR")
	_ = os.MkdirAll(folder, 0o700)
	l, err := net.Listen("unix", filepath.Join(folder, "plugin"))
	if err != nil {
		return
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_ = c.Close()
	}
}
