package peer_test

import (
	"net/netip"
	"testing"

	"github.com/daeace23/prober/plugin/plugintest/internal/clock"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
	"github.com/daeace23/prober/probe"
)

func TestHosts(t *testing.T) {
	n := peer.New(peer.Setup{
		Target: probe.Target{Host: "Web.Internal.", Port: 80},
		Names:  map[string][]netip.Addr{"db": {netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("10.0.0.8")}, "gone": nil},
	}, &clock.Real{}, 1)
	if network, addr := n.TargetAddr(); network != "tcp" || addr != "10.99.0.3:80" {
		t.Errorf("the target is at %s %s", network, addr)
	}
	for host, want := range map[string]string{
		"web.internal": "10.99.0.3:1", "db": "10.0.0.7:1", "DB.": "10.0.0.7:1", "localhost": "127.0.0.1:1",
		"::ffff:10.0.0.9": "10.0.0.9:1", "fd00::1": "[fd00::1]:1", "gone": "invalid IP:1",
	} {
		if got := n.Hosts.HostPort(host, "1"); got != want {
			t.Errorf("%s: got %s, want %s", host, got, want)
		}
	}
	for addr, want := range map[string]string{
		"10.0.0.8:5": "db:5", "10.99.0.3:80": "web.internal:80", "10.1.1.1:1": "10.1.1.1:1", "/run/x.sock": "/run/x.sock",
	} {
		if got := n.Hosts.Name(addr); got != want {
			t.Errorf("%s: got %s, want %s", addr, got, want)
		}
	}
	if _, err := n.LookupIP(t.Context(), "gone"); err == nil || !n.LookedUp("GONE.") {
		t.Errorf("a name without addresses: got %v", err)
	}
}
