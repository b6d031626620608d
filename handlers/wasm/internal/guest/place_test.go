package guest

import (
	"testing"

	"github.com/daeace23/prober/probe"
)

// TestPlaceOfDial checks that the text for a dial has the address, if known, and no options.
func TestPlaceOfDial(t *testing.T) {
	host, socket := probe.Target{Host: "10.0.0.7", Port: 5432}, probe.Target{Unix: "/run/db.sock"}
	for _, c := range []struct {
		url    string
		target probe.Target
		want   string
	}{
		{"", host, "tcp://10.0.0.7:5432"},
		{"", socket, "unix:///run/db.sock"},
		{"", probe.Target{}, ""},
		{"tcp://?ipFamily=6,4", host, "tcp://10.0.0.7:5432"},
		{"tls://?serverName=a&verify=false", host, "tls://10.0.0.7:5432"},
		{"tcp://?ipFamily=6,4", socket, "unix:///run/db.sock"},
		{"udp://", host, "udp://10.0.0.7:5432"},
		{"tcp://db.internal:5432?ipFamily=4", host, "tcp://db.internal:5432"},
		{"unix:///run/other.sock", host, "unix:///run/other.sock"},
	} {
		call := &Call{req: &probe.Request{Target: c.target}}
		if got := call.place(c.url); got != c.want {
			t.Errorf("%q for %+v: got %q, want %q", c.url, c.target, got, c.want)
		}
	}
}
