package access_test

import (
	"strings"
	"testing"

	"github.com/daeace23/prober/agent/access"
)

func TestHostsAllow(t *testing.T) {
	hosts, err := access.ParseHosts([]string{"Prober.example.com", "proxy.internal:8443", "*.svc.cluster.local", "192.0.2.1", "node_1."})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST:9876": true, "localhost.": true, "127.0.0.1:9876": true, "10.1.2.3": true,
		"[::1]:9876": true, "[::1]": true, "::1": true, "[fe80::1%25eth0]:80": true, "[::ffff:127.0.0.1]:80": true,
		"prober.example.com": true, "PROBER.example.com.:1": true, "proxy.internal:8443": true, "a.svc.cluster.local:1": true,
		"node_1": true,

		"": false, ":9876": false, "evil.com": false, "evil.com:9876": false, "localhost.evil.com": false, "127.0.0.1.evil.com": false,
		"evil.com#127.0.0.1": false, "127.0.0.1@evil.com": false, "evil.prober.example.com": false, "proxy.internal": false,
		"proxy.internal:80": false, "svc.cluster.local": false, ".svc.cluster.local": false, "xsvc.cluster.local": false,
		"127.1": false, "0x7f000001": false, "2130706433": false, "localhost:1:2": false, "[localhost": false, "127.0.0.1 ": false,
	} {
		if got := hosts.Allow(host); got != want {
			t.Errorf("Allow(%q) = %v, want %v", host, got, want)
		}
	}
}

func TestParseHostsRefuses(t *testing.T) {
	for _, text := range []string{
		"", "*", "*.", ".a", "a..b", "*a.b", "a.*.b", "http://a", "a:b", "a:70000", "a/b", "a b", "a,b", "[::1", "*:80",
	} {
		if _, err := access.ParseHosts([]string{text}); err == nil || !strings.Contains(err.Error(), "must be HOST, HOST:PORT, *.SUFFIX or *.SUFFIX:PORT") {
			t.Errorf("ParseHosts(%q) = %v", text, err)
		}
	}
}
