//go:build e2e

package e2e

import (
	"net"
	"os/exec"
	"path/filepath"
	"testing"
)

// dnsmasq starts a server that knows the domain test and refuses all others.
func dnsmasq(t *testing.T) string {
	t.Helper()
	address := freeAddress(t)
	host, port, _ := net.SplitHostPort(address)
	listening(t, address, exec.Command("dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--pid-file=", "--user=nobody",
		"--port="+port, "--listen-address="+host, "--bind-interfaces", "--no-resolv", "--no-hosts", "--local=/test/", "--local-ttl=30",
		"--host-record=www.test,192.0.2.1,2001:db8::1", "--host-record=www.test,192.0.2.2", "--cname=alias.test,www.test",
		"--mx-host=test,mx.test,10", "--txt-record=test,v=spf1 mx -all", "--srv-host=_db._tcp.test,www.test,5432,0,5",
		"--ptr-record=9.2.0.192.in-addr.arpa,www.test"))
	return address
}

// TestDNS probes dnsmasq with a plugin in AssemblyScript.
func TestDNS(t *testing.T) {
	server := dnsmasq(t)
	for _, c := range []struct{ name, address, config, result, text string }{
		{"addresses", server, `{"name":"www.test","expect":["192.0.2.2","192.0.2.1"],"match":"exact"}`, "success", "192.0.2.1"},
		{"missing address", server, `{"name":"www.test","expect":["192.0.2.3"]}`, "failure", "192.0.2.3 is missing"},
		{"unexpected address", server, `{"name":"www.test","expect":["192.0.2.1"],"match":"exact"}`, "failure", "192.0.2.2 is not expected"},
		{"AAAA", server, `{"name":"www.test","type":"AAAA","expect":["2001:db8::1"]}`, "success", "AAAA www.test: 2001:db8::1 from " + server},
		{"a name for another", server, `{"name":"alias.test","expect":["192.0.2.*"],"match":"exact"}`, "success", "A alias.test: 192.0.2."},
		{"MX", server, `{"name":"test","type":"MX","expect":["10 mx.test"]}`, "success", "MX test: 10 mx.test from "},
		{"TXT", server, `{"name":"test","type":"TXT","expect":["v=spf1 * -all"]}`, "success", "v=spf1 mx -all"},
		{"SRV", server, `{"name":"_db._tcp.test","type":"SRV","expect":["0 5 5432 www.test"]}`, "success", "0 5 5432 www.test"},
		{"PTR", server, `{"name":"192.0.2.9","type":"PTR","expect":["www.test"]}`, "success", "PTR 9.2.0.192.in-addr.arpa: www.test"},
		{"no such name", server, `{"name":"lost.test"}`, "failure", "A lost.test: NXDOMAIN from " + server},
		{"expected missing name", server, `{"name":"lost.test","rcode":"NXDOMAIN"}`, "success", "NXDOMAIN"},
		{"no such records", server, `{"name":"www.test","type":"MX"}`, "failure", "0 records from " + server + ", fewer than 1"},
		{"name without a certificate", server, `{"name":"www.example.com"}`, "failure", "REFUSED"},
		{"short time to live", server, `{"name":"www.test","warnTTL":"1m"}`, "warning", "a TTL of 30s, below 1m"},
		{"connection refused", freeAddress(t), `{"name":"www.test"}`, "failure", "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, code := probePluginIn(t, filepath.Join(bin, "plugins"), "dns", c.address, c.config, "--grant", "dns")
			want(t, v, code, c.result, c.text)
		})
	}
}
