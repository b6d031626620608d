package builtin_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/probe"
)

// TestDialOfNoConnection checks that a DialContext that returns neither a connection nor an error fails the
// attempt, and does not crash the program.
func TestDialOfNoConnection(t *testing.T) {
	for name, config := range map[string]string{"http": `{"host":"127.0.0.1","port":80}`, "tcp": `{"host":"127.0.0.1","port":80}`, "grpc": `{"port":80}`} {
		t.Run(name, func(t *testing.T) {
			var registry handlers.Registry
			dial := func(context.Context, string, string) (net.Conn, error) { return nil, nil }
			if err := builtin.Register(&registry, builtin.Config{DialContext: dial, Runner: &builtin.HostRunner{}}); err != nil {
				t.Fatal(err)
			}
			h, err := registry.Prepare(name, []byte(config), probe.Target{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			got, err := h.Probe(ctx, probe.Request{PodIP: "127.0.0.1", Spec: probe.Spec{Timeout: 300 * time.Millisecond}})
			if err != nil || got.Result != probe.Failure || got.Reason != probe.ReasonInternal {
				t.Errorf("got %v, error %v", got, err)
			}
		})
	}
}

// TestTargetWithoutAHost checks that a target without a host is an error. Otherwise the probe of a server on
// another machine would probe the agent's own host.
func TestTargetWithoutAHost(t *testing.T) {
	for name, config := range map[string]string{"http": `{"port":80}`, "tcp": `{"port":80}`, "grpc": `{"port":80}`} {
		t.Run(name, func(t *testing.T) {
			var registry handlers.Registry
			dial := func(_ context.Context, _, address string) (net.Conn, error) {
				t.Errorf("dialled %s", address)
				return nil, net.ErrClosed
			}
			if err := builtin.Register(&registry, builtin.Config{DialContext: dial, Runner: &builtin.HostRunner{}}); err != nil {
				t.Fatal(err)
			}
			h, err := registry.Prepare(name, []byte(config), probe.Target{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := h.Probe(t.Context(), probe.Request{Spec: probe.Spec{Timeout: time.Second}})
			if err == nil || !strings.Contains(err.Error(), "the probe's target has no host") || got.Result != probe.Unknown {
				t.Errorf("got %v, error %v", got, err)
			}
		})
	}
}
