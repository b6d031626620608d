package wasm_test

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// spellings are hosts that some resolver, URL parser or kernel takes for a denied one: loopback, the
// metadata address of a cloud, or db.internal at 10.66.6.6.
var spellings = map[string][]string{
	"loopback": {
		"127.0.0.1", "127.0.0.2", "127.255.255.254", "127.1", "127.0.1", "0177.0.0.1", "0177.1", "017700000001", "0x7f000001",
		"0x7f.0.0.1", "0x7f.1", "0X7F.0x0.0x0.0x1", "2130706433", "127.000.000.001", "127.0.0.1.", "127.0.0.1..", "１２７.0.0.1",
		"①②⑦.⓪.⓪.①", "127。0。0。1", "127．0．0．1", "127｡0｡0｡1", "%31%32%37.0.0.1", "127%2e0%2e0%2e1", "localhost", "LOCALHOST",
		"localhost.", "LocalHost.", "ｌｏｃａｌｈｏｓｔ", "loc\u00adalhost", "loc\u200balhost", "localhost%00", "localhost\t", " localhost",
		"x.localhost", "localhost.localdomain", "ip6-localhost", "127.0.0.1.nip.io", "0", "0.0.0.0", "0.0.0.1", "[::]", "[::1]",
		"[::1%25lo]", "[::1%lo]", "[0:0:0:0:0:0:0:1]", "[0000:0000:0000:0000:0000:0000:0000:0001]", "[::ffff:127.0.0.1]",
		"[::ffff:7f00:1]", "[::FFFF:7F00:0001]", "[::ffff:127.0.0.1%25lo]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::7f00:1]",
		"[64:ff9b:1::7f00:1]", "[64:ff9b:1:7f00:0:100::]", "[2002:7f00:1::]", "[2001:0:808:808::80ff:fffe]", "[fe80::5efe:127.0.0.1]",
		"[2001:db8::5efe:7f00:1]", "user@127.0.0.1", "user:pass@localhost", "10.9.9.9@127.0.0.1", "10.9.9.9#@127.0.0.1",
		"10.9.9.9\\@127.0.0.1", "10.9.9.9%23@127.0.0.1", "127.0.0.1%2f@10.9.9.9",
	},
	"metadata": {
		"169.254.169.254", "169.254.169.254.", "169.254.43518", "169.16689662", "2852039166", "0xa9fea9fe", "0xa9.0xfe.0xa9.0xfe",
		"0251.0376.0251.0376", "025177524776", "425.510.425.510", "１６９.254.169.254", "169。254。169。254", "169.254.169.254.nip.io",
		"metadata.google.internal", "METADATA.google.internal.", "metadata", "instance-data.ec2.internal", "169.254.170.2",
		"[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[::a9fe:a9fe]", "[::ffff:0:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]",
		"[64:ff9b:1::a9fe:a9fe]", "[64:ff9b:1:a9fe:a9:fe00::]", "[64:ff9b:1:0:a9:fea9:fe00:0]", "[2002:a9fe:a9fe::]", "[2001:0:808:808::5601:5601]",
		"[fe80::5efe:a9fe:a9fe]", "[fe80::a9fe:a9fe]", "[fe80::1%25eth0]", "[fd00:ec2::254]", "[fd00:ec2::23]", "[fd00:0ec2:0:0:0:0:0:0254]",
		"[fd20:ce::254]", "[fd00:42::42]", "100.100.100.200", "[::ffff:100.100.100.200]", "168.63.129.16", "192.0.0.192",
	},
	"denied": {
		"db.internal", "DB.INTERNAL", "db.internal.", "Db.Internal.", "db.internal..", "db", "db.internal.cluster.local", "alias.example",
		"ｄｂ.internal", "db。internal", "db．internal", "d%62.internal", "db.internal%00", "d\u00adb.internal", "10.66.6.6", "10.66.6.6.",
		"10.4326918", "171050502", "0x0a420606", "012.0102.06.06", "[::ffff:10.66.6.6]", "[::ffff:a42:606]", "[::10.66.6.6]",
		"[64:ff9b::a42:606]", "[64:ff9b:1::a42:606]", "[2002:a42:606::1]", "[2001:0:808:808::f5bd:f9f9]", "[2001:db8::5efe:10.66.6.6]",
		"user@db.internal", "10.66.6.6%25",
	},
}

func dialling(t *testing.T, url string) string {
	t.Helper()
	doc, err := json.Marshal(map[string]string{"url": url})
	if err != nil {
		t.Fatal(err)
	}
	return string(doc)
}

// TestSpellingsOfDeniedAddresses dials every spelling, with the widest grants. The resolver returns denied
// addresses for all names.
func TestSpellingsOfDeniedAddresses(t *testing.T) {
	evil := []netip.Addr{
		netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("10.66.6.6"),
		netip.MustParseAddr("::1"), netip.MustParseAddr("::ffff:169.254.169.254"), netip.MustParseAddr("64:ff9b::a42:606"),
	}
	wire := &wire{}
	h := hostWith(t, wasm.Config{
		DialContext: wire.dial,
		LookupIP: func(_ context.Context, name string) ([]netip.Addr, error) {
			switch {
			case name == "db.internal":
				return evil[2:3], nil
			case strings.HasSuffix(name, "."):
				return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
			}
			return evil, nil
		},
	})
	target := probe.Target{Host: "10.9.9.9", Port: 8080}
	wide := []string{"tcp://*:*", "udp://*:*", "tcp://0.0.0.0/0:*", "udp://0.0.0.0/0:*", "tcp://[::/0]:*", "udp://[::/0]:*"}
	granted := grants(t, append(slices.Clone(wide), "!db.internal")...)
	raw := loadAs(t, h, "dialurl", asking("dialurl", everywhere()), granted...)
	web := loadAs(t, h, "http", asking("http", plugin.Request{Capability: "http", Allow: wide}), granted...)
	request := probe.Request{
		Target: target, PodIP: "127.0.0.1",
		Pod: &probe.Pod{Ports: []probe.Port{{Number: 8080, Protocol: "TCP"}}},
	}
	count := 0
	for about, hosts := range spellings {
		for _, host := range hosts {
			count++
			for _, scheme := range []string{"tcp", "udp", "tls", "http", "https"} {
				url := scheme + "://" + host + ":6379"
				p, config := raw, dialling(t, url)
				if strings.HasPrefix(scheme, "http") {
					p, config = web, getting(t, url+"/")
				}
				got, err := attempt(t, bind(t, p, config, target), request, 5*time.Second)
				bad := slices.ContainsFunc(wire.dialed, func(to string) bool { return !strings.Contains(to, " 10.9.9.9:") })
				if err != nil || got.Result != probe.Failure || bad {
					t.Errorf("%s as %s: got %+v, %v, dialled %q", about, url, got, err, wire.dialed)
				}
				wire.dialed = nil
			}
		}
	}
	if count < 100 {
		t.Errorf("%d spellings", count)
	}
	t.Logf("%d spellings, %d denials counted", count, raw.Stats().Denied+web.Stats().Denied)
	got, err := attempt(t, bind(t, raw, dialling(t, "tcp://10.66.6.7:6379"), target), request, 5*time.Second)
	if err != nil || !slices.Equal(wire.dialed, []string{"tcp 10.66.6.7:6379"}) {
		t.Errorf("got %+v, %v, dialled %q; want an address that is granted to be dialled", got, err, wire.dialed)
	}
}
