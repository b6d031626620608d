package netaddr_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/internal/netaddr"
)

func TestNearest(t *testing.T) {
	for class, texts := range map[netaddr.Class][]string{
		netaddr.Public: {
			"192.0.2.1", "8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "2002:808:808::1", "::ffff:8.8.8.8",
			"100.128.0.1", "169.253.255.255", "2001:0:808:808::f7f7:f7f7", "2001:db8::5eff:7f00:1",
		},
		netaddr.Private: {
			"10.0.0.7", "172.16.0.1", "192.168.1.1", "100.64.0.1", "100.100.100.201", "fd00::7", "fd00:ec3::254", "fd20:ce::253", "fec0::1",
			"64:ff9b::a00:7", "2002:a00:7::1", "::10.0.0.7", "::ffff:0:10.0.0.7", "2001:db8::5efe:10.0.0.7", "2001:db8::200:5efe:10.0.0.7",
		},
		netaddr.Loopback: {
			"127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1", "64:ff9b::7f00:1", "2002:7f00:1::",
			"::7f00:1", "::ffff:0:127.0.0.1", "2001:0:808:808::80ff:fffe", "2001:0:7f00:1::f7f7:f7f7", "2001:db8::5efe:127.0.0.1",
		},
		netaddr.Metadata: {
			"169.254.169.254", "169.254.170.2", "169.254.0.1", "fe80::1", "fe80::1%eth0", "febf::1", "::ffff:169.254.169.254",
			"fd00:ec2::254", "fd00:ec2::23", "fd00:ec2::253", "fd00:ec2:ffff::1", "fd20:ce::254", "fd00:42::42",
			"100.100.100.200", "168.63.129.16", "192.0.0.192",
			"64:ff9b::a9fe:a9fe", "64:ff9b:1::", "64:ff9b:1::808:808", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "2002:a9fe:a9fe::1",
			"::a9fe:a9fe", "::ffff:0:a9fe:a9fe", "2001:0:808:808::5601:5601", "2001:0:a9fe:a9fe::1", "64:ff9b::6464:64c8",
			"2001:db8::5efe:169.254.169.254",
		},
		netaddr.NoHost: {
			"0.0.0.0", "0.0.0.1", "0.255.255.255", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "::ffff:0.0.0.0", "64:ff9b::",
			"2002::", "64:ff9b::e000:1", "::ffff:255.255.255.255",
		},
	} {
		for _, text := range texts {
			if got := netaddr.Nearest(netip.MustParseAddr(text)); got != class {
				t.Errorf("%s: got %d, want %d", text, got, class)
			}
		}
	}
	if got := netaddr.Nearest(netip.Addr{}); got != netaddr.NoHost {
		t.Errorf("no address: got %d", got)
	}
}

// The table is from RFC 6052, section 2.4, with prefixes moved into the prefix of RFC 8215. Each row is meant
// for only one of the layouts.
func TestFormsRFC6052(t *testing.T) {
	want := netip.MustParseAddr("192.0.2.33")
	for _, text := range []string{
		"64:ff9b:1:c000:2:2100::",       // /48
		"64:ff9b:1:1c0:0:221::",         // /56
		"64:ff9b:1:122:c0:2:2100:0",     // /64
		"64:ff9b:1:122:344::192.0.2.33", // /96
	} {
		if got := netaddr.Forms(netip.MustParseAddr(text)); !slices.Contains(got, want) {
			t.Errorf("%s: got %v, want %s among them", text, got, want)
		}
	}
}

func TestForms(t *testing.T) {
	for text, want := range map[string][]string{
		"10.0.0.7":                {"10.0.0.7"},
		"::ffff:10.0.0.7":         {"10.0.0.7"},
		"fe80::1%eth0":            {"fe80::1"},
		"::":                      {"::"},
		"::1":                     {"::1"},
		"2001:db8::1":             {"2001:db8::1"},
		"2002:a00:7::1":           {"2002:a00:7::1", "10.0.0.7"},
		"2001:0:a00:7::f5ff:fff8": {"2001:0:a00:7::f5ff:fff8", "10.0.0.7", "10.0.0.7"},
		"fe80::5efe:10.0.0.7":     {"fe80::5efe:10.0.0.7", "10.0.0.7"},
	} {
		var all []netip.Addr
		for _, w := range want {
			all = append(all, netip.MustParseAddr(w))
		}
		if diff := cmp.Diff(all, netaddr.Forms(netip.MustParseAddr(text)), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}
