//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestNetworkFaults probes through a router that drops packets, refuses routes and loses them. The agent is in a
// network namespace of its own.
//
// Reported as blackbox_exporter 818, 819.
func TestNetworkFaults(t *testing.T) {
	host, router := newNetwork(t), newNetwork(t)
	host.do("mount --bind %s /etc/resolv.conf; mount --bind %s /etc/hosts; ip link add name host0 type veth peer name router0; ip link set router0 netns %s",
		file(t, "resolv.conf", "nameserver 10.9.0.2\noptions timeout:1 attempts:1\n"), file(t, "hosts", "127.0.0.1 localhost\n"), router.pid)
	// 172.20.0.8 has no neighbour: the kernel sends one error a second for routes such as unreachable and prohibit.
	router.do("ip addr add 10.9.0.2/24 dev router0; ip addr add fd09::2/64 dev router0 nodad; ip link set router0 up; sysctl -qw net.ipv4.icmp_ratemask=0 net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.router0.send_redirects=0 net.ipv4.neigh.router0.retrans_time_ms=100 net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1; " +
		"ip addr add 172.20.0.7/32 dev lo; ip route add 172.20.0.8 dev router0; ip route add prohibit 172.20.0.9; ip route add blackhole 172.20.0.10; ip -6 route add blackhole fd20::10; ip -6 route add unreachable fd20::8")
	host.do("ip addr add 10.9.0.1/24 dev host0; ip addr add fd09::1/64 dev host0 nodad; ip link set host0 up; ip route add 172.20.0.0/24 via 10.9.0.2; ip -6 route add fd20::/64 via fd09::2; " +
		"sysctl -qw net.ipv4.tcp_syn_retries=1 net.ipv4.neigh.host0.retrans_time_ms=100 net.ipv4.ping_group_range='0 2147483647'")
	router.start("dnsmasq", "--keep-in-foreground", "--no-resolv", "--no-hosts", "--pid-file=", "--user=", "--listen-address=10.9.0.2", "--bind-interfaces",
		"--local=/test/", "--address=/shop.test/172.20.0.7", "--host-record=both.test,172.20.0.7,fd20::10", "--host-record=refuses.test,172.20.0.7,fd20::8", "--host-record=dead.test,172.20.0.10,fd20::10")
	router.start("python3", "-m", "http.server", "80", "--bind", "172.20.0.7", "--directory", t.TempDir())
	await(t, "the servers", func() bool {
		return host.command("/bin/bash", "-c", ": </dev/tcp/172.20.0.7/80 && : </dev/tcp/10.9.0.2/53").Run() == nil
	})
	told := filepath.Join(t.TempDir(), "told")
	a := &faultAgent{
		faults:   networkFaults(),
		receiver: object{"exec": object{"command": []string{"/bin/sh", "-c", "cat >>" + told}}},
		messages: func() []byte { text, _ := os.ReadFile(told); return text },
	}
	a.start(t, func(name string, args ...string) *exec.Cmd { return host.command(append([]string{name}, args...)...) })
	a.check(t)
}

func networkFaults() (rows []fault) {
	tcp, check, ping := object{"tcpSocket": object{}}, byPlugin("httpcheck", object{}), byPlugin("icmp", object{})
	redis, grpc := byPlugin("redis", object{}), object{"grpc": object{}}
	get, expect := object{"httpGet": object{}}, talk(nil)
	only := func(p object, family string) object {
		plugin := p["plugin"].(object)
		config := object{"preferredIpProtocol": family, "ipProtocolFallback": false}
		for name, value := range plugin["config"].(object) {
			config[name] = value
		}
		return byPlugin(plugin["name"].(string), config)
	}
	return []fault{
		{"tcp: answers", "172.20.0.7:80", tcp, "success", ""},
		{"httpcheck: answers", "172.20.0.7:80", check, "success", "HTTP status 200 in …"},
		{"icmp: replies", "172.20.0.7", ping, "success", "172.20.0.7 replied in … ms"},
		{"httpcheck: by a name", "shop.test:80", check, "success", "HTTP status 200 in …"},
		{"tcp: unreachable", "172.20.0.8:80", tcp, "failure", "dial tcp {AT}: connect: no route to host"},
		{"httpcheck: unreachable", "172.20.0.8:80", check, "failure", "http: dial tcp {AT}: connect: no route to host"},
		{"expect: unreachable", "172.20.0.8:80", expect, "failure", "dial tcp {AT}: connect: no route to host"},
		{"icmp: unreachable", "172.20.0.8", within("1s", ping), "failure", "…host unreachable…"},
		{"tcp: prohibited", "172.20.0.9:80", tcp, "failure", "dial tcp {AT}: connect: no route to host"},
		{"tcp: no neighbour", "10.9.0.77:80", tcp, "failure", "dial tcp {AT}: connect: no route to host"},
		{"tcp: no route", "192.0.2.1:80", tcp, "unknown", "dial tcp {AT}: connect: network is unreachable"},
		{"httpcheck: no route", "192.0.2.1:80", check, "unknown", "plugin \"httpcheck\": http: dial tcp {AT}: connect: network is unreachable"},
		{"tcp: dropped", "172.20.0.10:80", within("1s", tcp), "failure", "dial tcp {AT}: i/o timeout: no answer to the SYN: packets are dropped, or the listen queue is full"},
		{"httpGet: dropped", "172.20.0.10:80", within("1s", get), "failure", `Get "http://{AT}/": …: no answer to the SYN: packets are dropped, or the listen queue is full`},
		{"httpcheck: dropped", "172.20.0.10:80", within("1s", check), "failure", "timed out after 1s: http GET http://{AT}/: no answer to the SYN from {AT}"},
		{"expect: dropped", "172.20.0.10:80", within("1s", expect), "failure", "timed out after 1s: dial tcp://{AT}: no answer to the SYN from {AT}"},
		{"icmp: dropped", "172.20.0.10", within("1s", ping), "failure", "icmp 172.20.0.10: no reply in time"},
		{"dns: dropped", "172.20.0.10:53", within("1s", ask("shop.test", "A")), "failure", "timed out after 1s: read udp {AT}: connected after …; … bytes sent, 0 received"},
		{"httpcheck: unknown name", "gone.test:80", check, "failure", "http: dial http gone.test:80: lookup gone.test on 10.9.0.2:53: no such host"},
		{"httpGet: unknown name", "gone.test:80", get, "failure", `Get "http://gone.test:80/": dial tcp: lookup gone.test on 10.9.0.2:53: no such host`},
		{"httpcheck: name server refuses", "gone.example:80", check, "failure", "http: dial http gone.example:80: lookup gone.example on 10.9.0.2:53: server misbehaving"},
		{"httpcheck: dead IPv6, living IPv4", "both.test:80", within("2s", check), "success", "HTTP status 200 in …"},
		{"expect: dead IPv6, living IPv4", "both.test:80", within("2s", expect), "success", "connected in … ms"},
		{"httpGet: dead IPv6, living IPv4", "both.test:80", within("2s", get), "success", "…"},
		{"tcp: dead IPv6, living IPv4", "both.test:80", within("2s", tcp), "success", ""},
		{"httpcheck: unreachable IPv6, living IPv4", "refuses.test:80", check, "success", "HTTP status 200 in …"},
		{"httpcheck: dead IPv6 alone", "both.test:80", within("1s", only(check, "ip6")), "failure", "timed out after 1s: http GET http://{AT}/: no answer to the SYN from [fd20::10]:80"},
		{"httpcheck: IPv4 alone", "both.test:80", only(check, "ip4"), "success", "HTTP status 200 in …"},
		{"redis: unreachable", "172.20.0.8:80", redis, "failure", "dial tcp {AT}: connect: no route to host"},
		{"redis: no route", "192.0.2.1:80", redis, "unknown", "plugin \"redis\": dial tcp {AT}: connect: network is unreachable"},
		{"redis: dropped", "172.20.0.10:80", within("1s", redis), "failure", "timed out after 1s: dial tcp://{AT}: no answer to the SYN from {AT}"},
		{"redis: unknown name", "gone.test:80", redis, "failure", "dial tcp gone.test:80: lookup gone.test on 10.9.0.2:53: no such host"},
		{"redis: dead IPv6, living IPv4", "both.test:80", within("2s", redis), "failure", `PING: not redis: it sent "<!DOCTYPE HTML…`},
		{"grpc: unreachable", "172.20.0.8:80", within("2s", grpc), "failure", `timeout: failed to connect service "{AT}" within 2s: context deadline exceeded: dial tcp {AT}: connect: no route to host; waits before the next dial`},
		{"grpc: dropped", "172.20.0.10:80", within("1s", grpc), "failure", `timeout: failed to connect service "{AT}" within 1s: context deadline exceeded: dial tcp {AT}: no answer to the SYN: …`},
		{"grpc: no route", "192.0.2.1:80", within("200ms", grpc), "unknown", "…network is unreachable…"},
		{"httpcheck: all addresses dead", "dead.test:80", within("1s", check), "failure", "timed out after 1s: http GET http://{AT}/: no answer to the SYN from 172.20.0.10:80"},
	}
}
