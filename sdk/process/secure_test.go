package process_test

import (
	"context"
	"crypto/tls"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/pluginpb"
)

// TestGoPluginClientConnects uses go-plugin's own client as the host.
func TestGoPluginClientConnects(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, build(t, nil), 0o700); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe() // a process ends when its standard input, which is its client's, ends
	if err != nil {
		t.Fatal(err)
	}
	stdin := os.Stdin
	os.Stdin = r
	t.Cleanup(func() {
		os.Stdin = stdin
		_, _ = r.Close(), w.Close()
	})
	for name, secured := range map[string]bool{"with AutoMTLS": true, "without TLS": false} {
		t.Run(name, func(t *testing.T) {
			client := goplugin.NewClient(&goplugin.ClientConfig{
				HandshakeConfig: goplugin.HandshakeConfig{
					ProtocolVersion: pluginpb.ProtocolVersion, MagicCookieKey: pluginpb.CookieKey, MagicCookieValue: pluginpb.CookieValue,
				},
				Plugins: goplugin.PluginSet{}, Cmd: exec.Command(program), AutoMTLS: secured,
				AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC}, Logger: hclog.NewNullLogger(),
			})
			defer client.Kill()
			protocol, err := client.Client()
			if err != nil {
				t.Fatal(err)
			}
			if err := protocol.Ping(); err != nil {
				t.Error(err)
			}
			conn := protocol.(*goplugin.GRPCClient).Conn
			about, err := pluginpb.NewPluginClient(conn).Describe(t.Context(), &pluginpb.DescribeRequest{Abi: abi.Version})
			if err != nil || about.GetAbi() != abi.Version {
				t.Errorf("got %v, %v", about, err)
			}
			if secured {
				wantRefused(t, client.ReattachConfig().Addr.String())
			}
		})
	}
}

// wantRefused checks that the server at path refuses a client without a certificate.
func wantRefused(t *testing.T, path string) {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := pluginpb.NewPluginClient(conn).Describe(ctx, &pluginpb.DescribeRequest{Abi: abi.Version}); err == nil || ctx.Err() != nil {
		t.Errorf("a client without a certificate got %v", err)
	}
}
