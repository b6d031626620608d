// Package builtin has the four handlers of the kubelet: exec, http, tcp and grpc.
//
// They behave as in kubelet v1.37.2, with the same texts, except for the deviations listed in
// [probe.Compat]. Their configs are the JSON of v1.ExecAction, v1.HTTPGetAction, v1.TCPSocketAction
// and v1.GRPCAction. Each attempt makes its own connection, and so tests whether the target still
// accepts connections.
//
// This package links all four. A program that needs only some of them, or binds them to typed
// configs, imports [execprobe], [httpprobe], [tcpprobe] or [grpcprobe] instead:
//
//	web := httpprobe.New(httpprobe.Config{})
//	h, err := web.Bind(httpprobe.Action{Host: "10.0.0.7", Port: 8080, Path: "/healthz"})
package builtin

import (
	"context"
	"fmt"
	"net"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin/execprobe"
	"github.com/daeace23/prober/handlers/builtin/grpcprobe"
	"github.com/daeace23/prober/handlers/builtin/httpprobe"
	"github.com/daeace23/prober/handlers/builtin/tcpprobe"
	"github.com/daeace23/prober/probe"
)

// DefaultUserAgent is the default user agent of the http and grpc handlers. Service meshes and
// autoscalers recognize probes by its first word.
const DefaultUserAgent = httpprobe.DefaultUserAgent

// origin is the origin of these handlers in the registry.
const origin = "built in"

// Config configures the handlers of this package.
type Config struct {
	// Runner runs the commands of exec probes. [Register] and [NewExec] require it.
	Runner CommandRunner
	// DialContext makes every connection. Nil means a [net.Dialer]. The network is "tcp", or "unix"
	// if the target is a socket. DialContext must return when ctx ends, and its connections must
	// support SetDeadline, because an attempt waits for both.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Compat restores behaviours of the kubelet. These switches have an effect on the handlers:
	// [probe.CompatBodyHangIsError], [probe.CompatLinger], [probe.CompatHostTrouble],
	// [probe.CompatGRPCLibrary], [probe.CompatPortNumbers] and [probe.CompatIgnoreProtocol].
	Compat probe.Compat
	// UserAgent replaces [DefaultUserAgent] unless it is empty.
	UserAgent string
	// FollowNonLocalRedirects is [httpprobe.Config.FollowNonLocalRedirects].
	FollowNonLocalRedirects bool
	// ShowBody is [httpprobe.Config.ShowBody].
	ShowBody bool
}

// The handlers, and the types of the exec handler.
type (
	Exec = execprobe.Handler
	HTTP = httpprobe.Handler
	TCP  = tcpprobe.Handler
	GRPC = grpcprobe.Handler

	CommandRunner       = execprobe.CommandRunner
	HostRunner          = execprobe.HostRunner
	CommandExitError    = execprobe.CommandExitError
	CommandTimeoutError = execprobe.CommandTimeoutError
)

// NewExec returns the exec handler, or an error if cfg.Runner is nil.
func NewExec(cfg Config) (*Exec, error) {
	return execprobe.New(execprobe.Config{Runner: cfg.Runner})
}

// NewHTTP returns the http handler.
func NewHTTP(cfg Config) *HTTP {
	return httpprobe.New(httpprobe.Config{
		DialContext:             cfg.DialContext,
		Compat:                  cfg.Compat,
		UserAgent:               cfg.UserAgent,
		FollowNonLocalRedirects: cfg.FollowNonLocalRedirects,
		ShowBody:                cfg.ShowBody,
	})
}

// NewTCP returns the tcp handler.
func NewTCP(cfg Config) *TCP {
	return tcpprobe.New(tcpprobe.Config{DialContext: cfg.DialContext, Compat: cfg.Compat})
}

// NewGRPC returns the grpc handler.
func NewGRPC(cfg Config) *GRPC {
	return grpcprobe.New(grpcprobe.Config{DialContext: cfg.DialContext, Compat: cfg.Compat, UserAgent: cfg.UserAgent})
}

// table has the constructor of each handler, in the order of Register.
var table = []struct {
	name string
	new  func(Config) (probe.Preparer, error)
}{
	{"exec", func(cfg Config) (probe.Preparer, error) { return NewExec(cfg) }},
	{"http", func(cfg Config) (probe.Preparer, error) { return NewHTTP(cfg), nil }},
	{"tcp", func(cfg Config) (probe.Preparer, error) { return NewTCP(cfg), nil }},
	{"grpc", func(cfg Config) (probe.Preparer, error) { return NewGRPC(cfg), nil }},
}

// Register adds the handlers to reg with the names exec, http, tcp and grpc.
func Register(reg *handlers.Registry, cfg Config) error {
	for _, row := range table {
		h, err := row.new(cfg)
		if err != nil {
			return fmt.Errorf("register handler %q: %w", row.name, err)
		}
		if err := reg.Register(row.name, origin, h); err != nil {
			return err
		}
	}
	return nil
}
