// Package process serves a Go plugin as a separate process, for tasks that are impossible in a sandbox:
// native libraries, devices, files.
//
// One source can be built as a guest and as a process. The package main of a plugin registers it in init as
// usual, and has two more files. main_wasip1.go:
//
//	package main
//
//	func main() {} // never runs in a guest
//
// and main_process.go:
//
//	//go:build !wasip1
//
//	package main
//
//	import (
//		_ "embed"
//
//		"github.com/daeace23/prober/sdk/process"
//	)
//
//	//go:embed plugin.yaml
//	var manifest []byte
//
//	func main() { process.Serve(check{}, manifest) }
//
// GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared builds the guest. go build -o
// prober-plugin-NAME builds the process; put a copy of plugin.yaml beside it as
// prober-plugin-NAME.yaml. Package sdk does not import this one, so a guest contains none of it.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/pluginpb"
	"github.com/daeace23/prober/sdk"
)

// Serve serves p until the host ends the process or has ended itself. The main function of a process only
// calls Serve. manifest is the plugin.yaml that the plugin was built with. The host rejects a plugin whose
// name or version differs from the manifest beside it.
//
// The process does not inherit the host's environment, and its working directory is "/". Its standard
// output and standard error go to the host's log. Use [sdk.Request.Logf] for log lines that belong to an
// attempt.
func Serve(p sdk.Plugin, manifest []byte) {
	if os.Getenv(pluginpb.CookieKey) == pluginpb.CookieValue {
		go followParent(os.Stdin)
	}
	guide, err := newGuide(os.Getenv(abi.GuideEnv))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	config := &goplugin.ServeConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion: pluginpb.ProtocolVersion, MagicCookieKey: pluginpb.CookieKey, MagicCookieValue: pluginpb.CookieValue,
		},
		Plugins: goplugin.PluginSet{"prober": grpcPlugin{server: &server{plugin: p, manifest: manifest, stderr: os.Stderr, guide: guide}}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(pluginpb.MaxMessage), grpc.MaxSendMsgSize(pluginpb.MaxMessage))...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: os.Stderr}),
	}
	if err := secure(config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goplugin.Serve(config)
}

// followParent ends this process and its process group when its parent has ended. The parent holds the
// other end of standard input, and never writes to it.
func followParent(stdin *os.File) {
	buf := make([]byte, 512)
	for {
		if _, err := stdin.Read(buf); err != nil {
			break
		}
	}
	endGroup()
	os.Exit(1)
}

// grpcPlugin registers the server with go-plugin.
type grpcPlugin struct {
	goplugin.NetRPCUnsupportedPlugin
	server *server
}

var _ goplugin.GRPCPlugin = grpcPlugin{}

// GRPCServer implements [goplugin.GRPCPlugin].
func (p grpcPlugin) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	pluginpb.RegisterPluginServer(s, p.server)
	return nil
}

// GRPCClient implements [goplugin.GRPCPlugin]. It returns an error.
func (grpcPlugin) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a plugin is not a client of plugins")
}
