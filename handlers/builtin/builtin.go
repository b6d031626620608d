// Package builtin has the four handlers of the kubelet: exec, http, tcp and grpc.
//
// They behave as those of kubelet v1.36.3, with the same texts, except for the fixes that
// [probe.Compat] names. Their configs are the JSON of v1.ExecAction, v1.HTTPGetAction,
// v1.TCPSocketAction and v1.GRPCAction. Each attempt makes its own connection, so that it tests
// whether the target still accepts connections.
package builtin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/probe"
)

// DefaultUserAgent is the user agent of the http and grpc handlers. Service meshes and
// autoscalers recognize probes by its first word.
const DefaultUserAgent = "kube-probe/1.36"

// origin is the origin of these handlers in the registry.
const origin = "built in"

// Config configures the handlers of this package.
type Config struct {
	// Runner runs the commands of exec probes; required by [Register] and [NewExec].
	Runner CommandRunner
	// DialContext makes every connection; nil means a [net.Dialer]. The network is
	// "tcp", or "unix" for a target that is a socket.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Compat turns fixes off. The handlers know [probe.CompatBodyHangIsError],
	// [probe.CompatLinger] and [probe.CompatHostTrouble].
	Compat probe.Compat
	// UserAgent replaces [DefaultUserAgent] when not empty.
	UserAgent string
	// FollowNonLocalRedirects lets the http handler follow redirects to other hosts.
	// The kubelet's probes do not.
	FollowNonLocalRedirects bool
	// ShowBody adds the beginning of the body of a failed HTTP probe to the outcome's
	// details, as {"body": "…"}: at most 256 bytes, escaped, without the config's secrets.
	// It is never part of the output, which becomes the text of an event: a body shows pod
	// authors what the agent can reach (kubernetes#99425).
	ShowBody bool
}

func (c Config) userAgent() string { return cmp.Or(c.UserAgent, DefaultUserAgent) }

// Register adds the four handlers to reg, as exec, http, tcp and grpc.
func Register(reg *handlers.Registry, cfg Config) error {
	exec, err := NewExec(cfg)
	if err != nil {
		return fmt.Errorf("register handler %q: %w", "exec", err)
	}
	for _, h := range []struct {
		name    string
		handler probe.Preparer
	}{
		{"exec", exec},
		{"http", NewHTTP(cfg)},
		{"tcp", NewTCP(cfg)},
		{"grpc", NewGRPC(cfg)},
	} {
		if err := reg.Register(h.name, origin, h.handler); err != nil {
			return err
		}
	}
	return nil
}

// decode decodes config, one JSON object, into action. Unknown fields are errors.
func decode(config []byte, action any) error {
	d := json.NewDecoder(bytes.NewReader(config))
	d.DisallowUnknownFields()
	if err := d.Decode(action); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("config: more than one JSON value")
	}
	return nil
}

// probeUnbound makes an attempt of a handler that was not prepared, with an empty config.
func probeUnbound(ctx context.Context, p probe.Preparer, req probe.Request) (probe.Outcome, error) {
	h, err := p.Prepare([]byte("{}"), probe.Target{})
	if err != nil {
		return probe.Outcome{}, err
	}
	return h.Probe(ctx, req)
}
