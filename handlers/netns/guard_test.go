package netns_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/probe"
)

func TestGuard(t *testing.T) {
	guard := netns.WithGuard(t.Context(), func(addr netip.Addr) error {
		if addr.IsLoopback() {
			return errors.New("denied")
		}
		return nil
	})
	for _, c := range []struct {
		address        string
		dial, resolved probe.Reason // "": it may be dialled
	}{
		{"10.0.0.7:80", "", ""},
		{"127.0.0.1:80", probe.ReasonDenied, probe.ReasonDenied},
		{"[::1]:80", probe.ReasonDenied, probe.ReasonDenied},
		{":80", probe.ReasonHostResources, probe.ReasonDenied},
		{"name:80", "", probe.ReasonDenied}, // it is looked up
		{"", probe.ReasonHostResources, probe.ReasonDenied},
	} {
		for name, check := range map[string]func(context.Context, string) error{"dial": netns.CheckDial, "resolved": netns.CheckResolved} {
			want := map[string]probe.Reason{"dial": c.dial, "resolved": c.resolved}[name]
			err := check(guard, c.address)
			if (err == nil) != (want == "") || err != nil && probe.ReasonOf(err) != want {
				t.Errorf("%s %q: got %v, want %q", name, c.address, err, want)
			}
			if inherited := check(netns.Inherit(t.Context(), guard), c.address); (inherited == nil) != (err == nil) {
				t.Errorf("%s %q: inherited %v", name, c.address, inherited)
			}
			if err := check(t.Context(), c.address); err != nil {
				t.Errorf("%s %q without a guard: %v", name, c.address, err)
			}
		}
	}
}
