// Package process serves a Go plugin as a process of its own, for what a sandbox cannot
// do: native libraries, devices, files.
//
// One source builds as both. The package main of a plugin registers it in init, as ever,
// and has two files more. main_wasip1.go:
//
//	package main
//
//	func main() {} // of a guest it never runs
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
// GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared makes the guest; go build -o
// prober-plugin-NAME makes the process, beside which a copy of plugin.yaml is put as
// prober-plugin-NAME.yaml. Package sdk knows nothing of this one, so a guest carries none
// of it.
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

// Serve serves p until the host is done with it, or gone. It is all that the main function
// of a process does. manifest is the plugin.yaml that the plugin was built with; the host
// refuses a plugin whose name and version are not those of the manifest that it was
// given.
//
// Nothing of the host's environment is there, and the working folder is "/". What is
// written to standard output and standard error comes to the host's log; what belongs to
// an attempt is better told by [sdk.Request.Logf].
func Serve(p sdk.Plugin, manifest []byte) {
	if os.Getenv(pluginpb.CookieKey) == pluginpb.CookieValue {
		go followParent(os.Stdin)
	}
	world, err := newGuide(os.Getenv(abi.GuideEnv))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion: pluginpb.ProtocolVersion, MagicCookieKey: pluginpb.CookieKey, MagicCookieValue: pluginpb.CookieValue,
		},
		Plugins: goplugin.PluginSet{"prober": grpcPlugin{server: &server{plugin: p, manifest: manifest, stderr: os.Stderr, guide: world}}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(pluginpb.MaxMessage), grpc.MaxSendMsgSize(pluginpb.MaxMessage))...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: os.Stderr}),
	})
}

// followParent ends this process, and what it has started, when its parent is gone: the
// parent holds the other end of standard input, and never writes to it.
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

// GRPCClient implements [goplugin.GRPCPlugin]: a process is no client.
func (grpcPlugin) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a plugin is no client of plugins")
}
