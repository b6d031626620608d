package netns_test

import (
	"context"
	"errors"
	"testing"

	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/probe"
)

func TestGuard(t *testing.T) {
	guard := netns.WithGuard(t.Context(), func(to netns.To) error {
		if to.Addr.IsLoopback() || to.Host == "denied.test" || to.Socket != "" {
			return errors.New("denied")
		}
		return nil
	})
	for _, c := range []struct {
		network, address string
		dial, resolved   probe.Reason // "" means allowed
	}{
		{"tcp", "10.0.0.7:80", "", ""},
		{"tcp", "127.0.0.1:80", probe.ReasonDenied, probe.ReasonDenied},
		{"tcp", "[::1]:80", probe.ReasonDenied, probe.ReasonDenied},
		{"tcp", ":80", probe.ReasonHostResources, probe.ReasonDenied},
		{"tcp", "name:80", "", probe.ReasonDenied}, // it is looked up
		{"tcp", "denied.test:80", probe.ReasonDenied, probe.ReasonDenied},
		{"tcp", "[[fd00::7]]:80", probe.ReasonDenied, probe.ReasonDenied},
		{"tcp", "", probe.ReasonHostResources, probe.ReasonDenied},
		{"unix", "/run/a.sock", probe.ReasonDenied, probe.ReasonDenied},
	} {
		dial := func(ctx context.Context) error { return netns.CheckDial(ctx, c.network, c.address) }
		resolved := func(ctx context.Context) error { return netns.CheckResolved(ctx, c.address) }
		for name, check := range map[string]func(context.Context) error{"dial": dial, "resolved": resolved} {
			want := map[string]probe.Reason{"dial": c.dial, "resolved": c.resolved}[name]
			err := check(guard)
			if (err == nil) != (want == "") || err != nil && probe.ReasonOf(err) != want {
				t.Errorf("%s %q: got %v, want %q", name, c.address, err, want)
			}
			if inherited := check(netns.Inherit(t.Context(), guard)); (inherited == nil) != (err == nil) {
				t.Errorf("%s %q: inherited %v", name, c.address, inherited)
			}
			if err := check(t.Context()); err != nil {
				t.Errorf("%s %q without a guard: %v", name, c.address, err)
			}
		}
	}
}

func TestGuardsOfContextAreAllAsked(t *testing.T) {
	refuse := func(host string) netns.Guard {
		return func(to netns.To) error {
			if to.Host == host {
				return errors.New("denied")
			}
			return nil
		}
	}
	ctx := netns.WithGuard(netns.WithGuard(t.Context(), refuse("outer.test")), refuse("inner.test"))
	for host, allowed := range map[string]bool{"outer.test": false, "inner.test": false, "other.test": true} {
		if err := netns.CheckHost(ctx, host, 80); (err == nil) != allowed {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestGuardSeesPort(t *testing.T) {
	var last netns.To
	ctx := netns.WithGuard(t.Context(), func(to netns.To) error { last = to; return nil })
	for name, check := range map[string]func() error{
		"CheckDial":     func() error { return netns.CheckDial(ctx, "tcp", "10.0.0.7:80") },
		"CheckHost":     func() error { return netns.CheckHost(ctx, "10.0.0.7", 80) },
		"CheckResolved": func() error { return netns.CheckResolved(ctx, "10.0.0.7:80") },
	} {
		last = netns.To{}
		if err := check(); err != nil || last.Port != 80 || !last.Addr.IsValid() {
			t.Errorf("%s: %+v, %v", name, last, err)
		}
	}
}
