package egress

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

// hosts maps the names that the tests can look up to addresses.
var hosts = map[string]string{
	"db.test": "10.0.0.5", "twin.test": "10.0.0.5", "meta.test": "169.254.169.254", "local.test": "127.0.0.1", "pub.test": "203.0.113.7",
}

// policy returns the policy of a plugin that requests all of the capability net, with the target
// db.test:5432.
func policy(t *testing.T, grants ...string) *Policy {
	t.Helper()
	granted, err := plugin.ParseGrants(grants)
	if err != nil {
		t.Fatal(err)
	}
	request := plugin.Request{Capability: plugin.CapabilityNet, Allow: []string{"tcp://*:*", "udp://*:*", "unix:///run/a.sock"}}
	permissions, err := NewPermissions([]plugin.Request{request}, granted)
	if err != nil {
		t.Fatal(err)
	}
	return &Policy{
		Network: &Network{
			Clock:     systemClock{},
			Listeners: []net.Addr{&net.TCPAddr{IP: net.IPv4(203, 0, 113, 9), Port: 9876}},
			LookupIP: func(_ context.Context, host string) ([]netip.Addr, error) {
				if addr, ok := hosts[strings.TrimSuffix(host, ".")]; ok {
					return []netip.Addr{netip.MustParseAddr(addr)}, nil
				}
				return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
			},
		},
		Permissions: permissions, Capability: plugin.CapabilityNet,
		Target: probe.Target{Host: "db.test", Port: 5432}, PodIP: "127.0.0.1",
		Container: &probe.Container{Ports: []probe.Port{{Number: 8080}}},
	}
}

func TestResolve(t *testing.T) {
	for _, tc := range []struct {
		name, url, want string // want "" means denied
		grants          []string
	}{
		{name: "the target needs no grant", url: "", want: "10.0.0.5:5432"},
		{name: "the target by its name needs no grant", url: "tcp://DB.test.:5432", want: "10.0.0.5:5432"},
		{name: "the target by its address needs no grant", url: "tcp://10.0.0.5:5432", want: "10.0.0.5:5432"},
		{name: "another port of the target is denied", url: "tcp://db.test:22"},
		{name: "another host is denied", url: "tcp://pub.test:5432"},
		{name: "a granted host is allowed", url: "tcp://pub.test:443", grants: []string{"tcp://pub.test:443"}, want: "203.0.113.7:443"},
		{name: "another port of a granted host is denied", url: "tcp://pub.test:80", grants: []string{"tcp://pub.test:443"}},
		{name: "another scheme of a granted host is denied", url: "udp://pub.test:443", grants: []string{"tcp://pub.test:443"}},
		{name: "a denial outweighs a grant", url: "tcp://pub.test:443", grants: []string{"tcp://*:*", "!pub.test:*"}},
		{name: "a denial outweighs the target", url: "", grants: []string{"!10.0.0.5:*"}},
		{name: "a denied name denies its address", url: "tcp://10.0.0.5:80", grants: []string{"tcp://*:*", "!twin.test:*"}},
		{name: "a denied name denies other names of its address", url: "", grants: []string{"!twin.test:*"}},
		{name: "a wildcard leads to no metadata address", url: "tcp://meta.test:80", grants: []string{"tcp://*:*"}},
		{name: "a metadata address that is granted by name is denied", url: "tcp://meta.test:80", grants: []string{"tcp://meta.test:80"}},
		{name: "a metadata address that is granted literally is allowed", url: "tcp://169.254.169.254:80", grants: []string{"tcp://169.254.169.254:80"}, want: "169.254.169.254:80"},
		{name: "a wildcard leads to no loopback address", url: "tcp://local.test:80", grants: []string{"tcp://*:*"}},
		{name: "a wildcard leads to a declared port of the pod", url: "tcp://127.0.0.1:8080", grants: []string{"tcp://*:*"}, want: "127.0.0.1:8080"},
		{name: "an IPv4-mapped loopback address is denied", url: "tcp://[::ffff:127.0.0.1]:80", grants: []string{"tcp://*:*"}},
		{name: "a multicast address is denied", url: "tcp://224.0.0.1:80", grants: []string{"tcp://*:*"}},
		{name: "a listener of this program is denied", url: "tcp://203.0.113.9:9876", grants: []string{"tcp://203.0.113.9:9876"}},
		{name: "another port of its host is allowed", url: "tcp://203.0.113.9:80", grants: []string{"tcp://203.0.113.9:80"}, want: "203.0.113.9:80"},
		{name: "a socket is denied", url: "unix:///run/a.sock"},
		{name: "a granted socket is allowed", url: "unix:///run/a.sock", grants: []string{"unix:///run/a.sock"}, want: "/run/a.sock"},
		{name: "a granted socket that was not requested is denied", url: "unix:///run/b.sock", grants: []string{"unix:///run/b.sock"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			to, err := policy(t, tc.grants...).Resolve(t.Context(), tc.url)
			_, denied := errors.AsType[*Denied](err)
			if got := strings.Join(to.Addrs, " "); denied != (tc.want == "") || got != tc.want {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// TestNameOnLoopback has targets whose name leads to loopback, as Debian's host names do.
func TestNameOnLoopback(t *testing.T) {
	const target = "local.test"
	own := func(host string) bool { return host == target }
	refuse := func(_ string, addr netip.Addr, _ string) error {
		if addr.IsValid() {
			return errors.New("would be the node itself")
		}
		return nil
	}
	for _, tc := range []struct {
		name, url string
		host      string // of the target; "" means local.test
		own       func(host string) bool
		guard     func(host string, addr netip.Addr, socket string) error
		grants    []string
		want      string // "" means denied
		undecided bool
	}{
		{name: "the operator's own name is allowed", own: own, want: "127.0.0.1:5432"},
		{name: "the address of the operator's own name is allowed", url: "tcp://127.0.0.1:5432", own: own, want: "127.0.0.1:5432"},
		{name: "the name of others decides nothing", undecided: true},
		{name: "an own name that is not the target's decides nothing", own: func(host string) bool { return host == "db.test" }, undecided: true},
		{name: "a guard outweighs an own name", own: own, guard: refuse, undecided: true},
		{name: "a denial outweighs an own name", own: own, grants: []string{"!127.0.0.0/8"}},
		{name: "another port of an own name is denied", url: "tcp://local.test:22", own: own},
		{name: "another name is denied", url: "tcp://other.test:5432", own: func(string) bool { return true }},
		{name: "a granted name that is not the target is denied", url: "tcp://local.test:80", host: "db.test", own: func(string) bool { return true }, grants: []string{"tcp://*:*"}},
		{name: "an own name on a metadata address is denied", host: "meta.test", own: func(string) bool { return true }},
		{name: "a target by its address needs no own name", host: "127.0.0.1", want: "127.0.0.1:5432"},
		{name: "another address than that of an own target is denied", url: "tcp://127.0.0.2:5432", own: own},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := policy(t, tc.grants...)
			p.Target.Host, p.PodIP, p.OwnName, p.Guard = cmp.Or(tc.host, target), "10.0.0.5", tc.own, tc.guard
			to, err := p.Resolve(t.Context(), tc.url)
			denied, ok := errors.AsType[*Denied](err)
			if got := strings.Join(to.Addrs, " "); ok != (tc.want == "") || got != tc.want || ok && denied.Undecided != tc.undecided {
				t.Errorf("got %q, %v (%+v), want %q", got, err, denied, tc.want)
			}
		})
	}
	p := policy(t)
	p.Target.Host, p.PodIP, p.OwnName = target, "10.0.0.5", own
	p.Network.Listeners = []net.Addr{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5432}}
	if to, err := p.Resolve(t.Context(), ""); err == nil {
		t.Errorf("a listener of this program behind an own name: %v", to)
	}
}

func TestResolveLooksUpNoDeniedName(t *testing.T) {
	for _, grants := range [][]string{nil, {"tcp://pub.test:443"}, {"tcp://*:*", "!secret.test:*"}} {
		p := policy(t, grants...)
		p.Network.LookupIP = func(_ context.Context, host string) ([]netip.Addr, error) {
			t.Errorf("grants %q: looked up %s", grants, host)
			return nil, errors.New("no")
		}
		if _, err := p.Resolve(t.Context(), "tcp://secret.test:443"); err == nil {
			t.Errorf("grants %q: allowed", grants)
		}
	}
}

func TestCheckHost(t *testing.T) {
	for _, tc := range []struct {
		onTarget bool
		host     string
		want     bool
	}{{false, "", true}, {false, "a.test", true}, {false, "b.test", false}, {true, "b.test", true}} {
		to := Endpoint{OnTarget: tc.onTarget}
		if err := to.CheckHost(tc.host, "a.test"); (err == nil) != tc.want {
			t.Errorf("%+v: got %v", tc, err)
		}
	}
}
