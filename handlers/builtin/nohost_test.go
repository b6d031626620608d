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

// A target without a host is an error, and not the agent's own host: the probe of a server on another machine
// would ask whatever listens here.
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
