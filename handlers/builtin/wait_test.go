package builtin_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/probe"
)

// blackHole is a dial function that never connects.
func blackHole(ctx context.Context, network, address string) (net.Conn, error) {
	<-ctx.Done()
	return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
}

func TestDialHangNamesAddress(t *testing.T) {
	cfg := builtin.Config{DialContext: blackHole}
	const want = `^dial tcp 192.0.2.1:80: waiting for \d+ms; no answer to the SYN`
	for name, h := range map[string]probe.Handler{
		"tcp":  rig.Prepare(t, builtin.NewTCP(cfg), `{"port":80,"host":"192.0.2.1"}`),
		"http": rig.Prepare(t, builtin.NewHTTP(cfg), `{"port":80,"host":"192.0.2.1"}`),
		"grpc": rig.PrepareAt(t, builtin.NewGRPC(cfg), `{"port":80}`, probe.Target{Host: "192.0.2.1"}),
	} {
		t.Run(name, func(t *testing.T) { rig.WantWaiting(t, rig.Hang(t, h), want) })
	}
	t.Run("dns", func(t *testing.T) {
		cfg := builtin.Config{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{Err: "i/o timeout", Name: "db.internal", IsTimeout: true}}
		}}
		h := rig.Prepare(t, builtin.NewTCP(cfg), `{"port":80,"host":"db.internal"}`)
		rig.WantWaiting(t, rig.Hang(t, h), `^dns db.internal: waiting for \d+ms; no answer from the resolver$`)
	})
}

// TestWaitBeforeTheFirstStep has attempts whose deadline passes before their first step.
func TestWaitBeforeTheFirstStep(t *testing.T) {
	cfg := builtin.Config{DialContext: blackHole}
	const config = `{"port":80,"host":"192.0.2.1"}`
	for name, h := range map[string]probe.Handler{
		"tcp":   rig.Prepare(t, builtin.NewTCP(cfg), config),
		"http":  rig.Prepare(t, builtin.NewHTTP(cfg), config),
		"https": rig.Prepare(t, builtin.NewHTTP(cfg), `{"port":80,"host":"192.0.2.1","scheme":"HTTPS"}`),
		"grpc":  rig.PrepareAt(t, builtin.NewGRPC(cfg), `{"port":80}`, probe.Target{Host: "192.0.2.1"}),
	} {
		for _, traced := range []bool{false, true} {
			t.Run(fmt.Sprint(name, traced), func(t *testing.T) {
				ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
				defer cancel()
				req := probe.Request{Spec: probe.Spec{Timeout: time.Second}}
				if traced {
					req.Trace = func(e probe.TraceEvent) {
						if e.Type == probe.TraceWait && (e.Name == "" || e.Duration > time.Hour) {
							t.Errorf("waits for %+v", e)
						}
					}
				}
				out, _ := h.Probe(ctx, req)
				if text := out.Output + out.Details; strings.Contains(text, "2562047h") || strings.Contains(text, `": waiting`) {
					t.Errorf("output %q, details %s", out.Output, out.Details)
				}
			})
		}
	}
}
