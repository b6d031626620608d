//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// zone is shop.test. The records of long need more than a datagram.
func zone() string {
	text := "$ORIGIN shop.test.\n@ 60 IN SOA ns hostmaster 7 60 60 600 60\n@ 60 IN NS ns\nns 60 IN A 127.0.0.1\nwww 60 IN A 10.0.0.7\n"
	for i := range 40 {
		text += fmt.Sprintf("long 60 IN TXT \"%02d %s\"\n", i, strings.Repeat("x", 100))
	}
	return text
}

// nsd starts an authoritative server of shop.test, and of a zone that has no file.
func nsd(t *testing.T) *server {
	t.Helper()
	dir, at := t.TempDir(), freeAddress(t)
	_, port, _ := net.SplitHostPort(at)
	write(t, dir, "shop.zone", zone())
	config := fmt.Sprintf(`server:
 ip-address: 127.0.0.1
 port: %s
 username: ""
 chroot: ""
 zonesdir: %s
 pidfile: ""
 xfrdfile: ""
 zonelistfile: %[2]s/zones
 xfrdir: %[2]s
 logfile: %[2]s/log
remote-control:
 control-enable: no
zone:
 name: shop.test
 zonefile: shop.zone
zone:
 name: broken.test
 zonefile: none.zone
`, port, dir)
	return serves(t, at, exec.Command("nsd", "-d", "-c", file(t, "nsd.conf", config)))
}

// ask returns a probe of a name server.
func ask(name, kind string, more ...object) object {
	config := object{"queryName": name, "queryType": kind}
	for _, m := range more {
		for field, value := range m {
			config[field] = value
		}
	}
	return byPlugin("dns", config)
}

func nsdFaults(t *testing.T) []fault {
	at := nsd(t).at
	web := nginxPage(t)
	www := ask("www.shop.test", "A")
	overTCP := object{"transportProtocol": "tcp"}
	return []fault{
		{"answer", at, www, "success", "NOERROR, 1 records in … ms"},
		{"truncated answer", at, ask("long.shop.test", "TXT"), "success", "NOERROR, 40 records in … ms"},
		{"truncated, and TCP ends", cutDNS(t, at), ask("long.shop.test", "TXT"), "failure", "the answer over UDP is truncated, and over TCP: …connection refused"},
		{"unknown name", at, ask("gone.shop.test", "A"), "failure", "the answer is NXDOMAIN, want NOERROR"},
		{"zone of others", at, ask("www.example.com", "A"), "failure", "the answer is REFUSED, want NOERROR"},
		{"zone without data", at, ask("www.broken.test", "A"), "failure", "the answer is SERVFAIL, want NOERROR"},
		{"other record", at, ask("www.shop.test", "A", object{"validateAnswerRrs": object{"failIfNotMatchesRegexp": []string{`10\.0\.0\.8`}}}), "failure", `the answer section has "www.shop.test.\t60\tIN\tA\t10.0.0.7", which does not match "10\\.0\\.0\\.8"`},
		{"no record of the type", at, ask("www.shop.test", "AAAA", object{"validateAnswerRrs": object{"failIfNotMatchesRegexp": []string{`:`}}}), "failure", `the answer section is empty, and must match ":"`},
		{"stopped", nsd(t).stop(), www, "failure", "read udp …->{AT}: read: connection refused"},
		{"SIGSTOP", nsd(t).freeze(), within("1s", www), "failure", "timed out after 1s: read udp {AT}: connected after …; … bytes sent, 0 received"},
		{"over TCP", at, ask("www.shop.test", "A", overTCP), "success", "NOERROR, 1 records in … ms"},
		{"over TCP, stopped", freeAddress(t), ask("www.shop.test", "A", overTCP), "failure", "dial tcp {AT}: connect: connection refused"},
		{"over TCP, nginx at the port", web, ask("www.shop.test", "A", overTCP), "failure", "the server closed the connection before the end of its answer"},
		{"over TCP, cut answer", cut(t, at, 10), ask("www.shop.test", "A", overTCP), "failure", "the server closed the connection before the end of its answer"},
	}
}

// cutDNS returns the address of a proxy for UDP before a name server, whose port of TCP is closed.
func cutDNS(t *testing.T, at string) string {
	t.Helper()
	address := freeAddress(t)
	conn, err := net.ListenPacket("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		for question := make([]byte, 4096); ; {
			n, from, err := conn.ReadFrom(question)
			if err != nil {
				return
			}
			if answer := answerOf(at, question[:n]); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	return address
}

// answerOf returns the answer of a server to a datagram; nil if there is none.
func answerOf(at string, question []byte) []byte {
	upstream, err := net.Dial("udp", at)
	if err != nil {
		return nil
	}
	defer upstream.Close()
	answer := make([]byte, 65536)
	if _, err := upstream.Write(question); err != nil {
		return nil
	}
	n, err := upstream.Read(answer)
	if err != nil {
		return nil
	}
	return answer[:n]
}

// named starts BIND with more options and statements. It is the primary server of shop.test.
func named(t *testing.T, options, more string) *server {
	t.Helper()
	dir, at := t.TempDir(), freeAddress(t)
	_, port, _ := net.SplitHostPort(at)
	write(t, dir, "shop.zone", zone())
	config := fmt.Sprintf(`options {
 directory "%s";
 listen-on port %s { 127.0.0.1; };
 listen-on-v6 { none; };
 pid-file none;
 session-keyfile none;
 dnssec-validation no;
 empty-zones-enable no;
 %s
};
controls { };
zone "shop.test" { type primary; file "shop.zone"; };
%s`, dir, port, options, more)
	return serves(t, at, exec.Command("named", "-g", "-4", "-n", "1", "-c", file(t, filepath.Base(dir)+".conf", config)))
}

func bindFaults(t *testing.T) []fault {
	certs, secured := newShopCertificates(t), make(map[string]string)
	var tls, listen string
	for name, f := range certs.files {
		secured[name] = freeAddress(t)
		_, port, _ := net.SplitHostPort(secured[name])
		tls += fmt.Sprintf("tls %q { cert-file %q; key-file %q; };\n", name, f.chain, f.key)
		listen += fmt.Sprintf("listen-on port %s tls %q { 127.0.0.1; };\n", port, name)
	}
	at := named(t, "recursion no;\n"+listen, tls+`zone "broken.test" { type primary; file "none.zone"; };
zone "copy.test" { type secondary; file "copy.zone"; primaries { 127.0.0.1 port 1; }; };
`).at
	_, closed, _ := net.SplitHostPort(freeAddress(t))
	forwarding := named(t, fmt.Sprintf("recursion yes; forward only; forwarders { 127.0.0.1 port %s; };", closed), "").at
	closedToUs := named(t, "recursion no; allow-query { none; };", "").at
	www := ask("www.shop.test", "A")
	rows := []fault{
		{"answer", at, www, "success", "NOERROR, 1 records in … ms"},
		{"truncated answer", at, ask("long.shop.test", "TXT"), "success", "NOERROR, 40 records in … ms"},
		{"truncated, and TCP is blocked", cutDNS(t, at), ask("long.shop.test", "TXT"), "failure", "the answer over UDP is truncated, and over TCP: …connection refused"},
		{"unknown name", at, ask("gone.shop.test", "A"), "failure", "the answer is NXDOMAIN, want NOERROR"},
		{"no recursion", at, ask("www.example.com", "A"), "failure", "the answer is REFUSED, want NOERROR"},
		{"client is refused", closedToUs, www, "failure", "the answer is REFUSED, want NOERROR"},
		{"zone without a file", at, ask("www.broken.test", "A"), "failure", "the answer is SERVFAIL, want NOERROR"},
		{"secondary without its primary", at, ask("www.copy.test", "A"), "failure", "the answer is SERVFAIL, want NOERROR"},
		{"forwarder is stopped", forwarding, ask("www.example.com", "A"), "failure", "the answer is SERVFAIL, want NOERROR"},
		{"other serial", at, ask("shop.test", "SOA", object{"validateAnswerRrs": object{"failIfNotMatchesRegexp": []string{` 8 `}}}), "failure", `the answer section has "shop.test.\t60\tIN\tSOA\tns.shop.test. hostmaster.shop.test. 7 60 60 600 60", which does not match " 8 "`},
		{"stopped", named(t, "", "").stop(), www, "failure", "read udp …->{AT}: read: connection refused"},
		{"SIGSTOP", named(t, "", "").freeze(), within("1s", www), "failure", "timed out after 1s: read udp {AT}: connected after …; … bytes sent, 0 received"},
		{"no TLS on a port with it", secured[goodCert], ask("www.shop.test", "A", object{"transportProtocol": "tcp"}), "failure", "the server closed the connection before the end of its answer"},
	}
	return append(rows, certs.faults(secured, ask("www.shop.test", "A", certs.tls(object{"transportProtocol": "tcp", "dnsOverTls": true})), "", "NOERROR, 1 records in … ms")...)
}

func unboundFaults(t *testing.T) []fault {
	certs, secured := newShopCertificates(t), make(map[string]string)
	start := func(extra string) *server {
		dir, at := t.TempDir(), freeAddress(t)
		host, port, _ := net.SplitHostPort(at)
		config := fmt.Sprintf("server:\n interface: %s@%s\n username: \"\"\n chroot: \"\"\n directory: %s\n pidfile: \"\"\n use-syslog: no\n num-threads: 1\n do-not-query-localhost: no\n access-control: 127.0.0.0/8 allow\n module-config: iterator\n local-zone: shop.test. static\n local-data: 'www.shop.test. 60 IN A 10.0.0.7'\n%s", host, port, dir, extra)
		return serves(t, at, exec.Command("unbound", "-d", "-p", "-c", file(t, filepath.Base(dir)+".conf", config)))
	}
	www := ask("www.shop.test", "A")
	for name, f := range certs.files {
		at := freeAddress(t)
		_, port, _ := net.SplitHostPort(at)
		start(fmt.Sprintf(" interface: 127.0.0.1@%s\n tls-port: %[1]s\n tls-service-key: '%s'\n tls-service-pem: '%s'\n", port, f.key, f.chain))
		secured[name] = at
	}
	forward := func(to string) string {
		return fmt.Sprintf("forward-zone:\n name: example.com\n forward-addr: %s\n", strings.Replace(to, ":", "@", 1))
	}
	rows := []fault{
		{"answer", start("").at, www, "success", "NOERROR, 1 records in … ms"},
		{"client is refused", start(" access-control: 127.0.0.0/8 refuse\n").at, www, "failure", "the answer is REFUSED, want NOERROR"},
		{"upstream refuses", start(forward(nsd(t).at)).at, ask("www.example.com", "A"), "failure", "the answer is SERVFAIL, want NOERROR"},
		{"stopped", start("").stop(), www, "failure", "read udp …->{AT}: read: connection refused"},
		{"SIGSTOP", start("").freeze(), within("1s", www), "failure", "timed out after 1s: read udp {AT}: connected after …; … bytes sent, 0 received"},
	}
	return append(rows, certs.faults(secured, ask("www.shop.test", "A", certs.tls(object{"transportProtocol": "tcp", "dnsOverTls": true})), "", "NOERROR, 1 records in … ms")...)
}

// chronyServer starts a time server that does not set the clock. It does not listen on TCP.
func chronyServer(t *testing.T, config string) *server {
	t.Helper()
	at, folder := freeAddress(t), dataFolder(t)
	_, port, _ := net.SplitHostPort(at)
	config += "\nport " + port + "\ncmdport 0\nbindaddress 127.0.0.1\nbindcmdaddress /\nallow 127.0.0.1\npidfile " + filepath.Join(folder, "pid") + "\n"
	return &server{t, at, starts(t, unprivileged(t, "chronyd", "-d", "-x", "-U", "-u", "nobody", "-f", publicConfig(t, config)))}
}

func chronyFaults(t *testing.T) []fault {
	ask := func(fields object) object { return byPlugin("ntp", fields) }
	wide := ask(object{"offset": object{"warn": "1h", "fail": "2h"}})
	right, frozen := chronyServer(t, "local stratum 10"), chronyServer(t, "local stratum 1")
	awaitNTP(t, right.at, "success")
	awaitNTP(t, frozen.at, "success")
	return []fault{
		{"right clock", right.at, wide, "success", "stratum 10, …"},
		{"high stratum", right.at, ask(object{"offset": object{"warn": "1h"}, "stratum": object{"max": 9}}), "failure", "the stratum is 10, above 9"},
		{"not synchronised", chronyServer(t, "").at, ask(object{}), "failure", "the server is not synchronized"},
		{"stopped", freeAddress(t), wide, "failure", "read udp …->{AT}: read: connection refused"},
		{"SIGSTOP", frozen.freeze(), within("1s", wide), "failure", "no answer; the deadline of 1s has passed"},
	}
}
