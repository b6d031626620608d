//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// talk returns a probe by the plugin expect. Its steps are expectations, and lines to send that begin with "> ".
// "TLS after X" expects X and then starts TLS.
func talk(fields object, steps ...string) object {
	all := []object{}
	for _, s := range steps {
		if line, ok := strings.CutPrefix(s, "> "); ok {
			all = append(all, object{"send": line})
		} else if line, ok := strings.CutPrefix(s, "TLS after "); ok {
			all = append(all, object{"expect": line, "starttls": true})
		} else {
			all = append(all, object{"expect": s})
		}
	}
	config := object{"queryResponse": all}
	maps.Copy(config, fields)
	return byPlugin("expect", config)
}

// postfix starts a mail server. Each other address has its own options of smtpd.
func postfix(t *testing.T, options map[string]string) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "prober-e2e-") // root must own it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	at := freeAddress(t)
	run(t, exec.Command("sh", "-ec", "cd "+dir+" && mkdir etc queue data && chmod 755 . * && chown postfix data"))
	write(t, dir+"/etc", "main.cf", fmt.Sprintf(`compatibility_level = 3.6
queue_directory = %s/queue
data_directory = %[1]s/data
mail_owner = postfix
setgid_group = postdrop
myhostname = mail.shop.test
mydestination =
local_recipient_maps =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
maillog_file = /dev/stdout
alias_maps =
alias_database =
`, dir))
	master := at + " inet n - n - - smtpd\n"
	for at, more := range options {
		master += at + " inet n - n - - smtpd " + more + "\n"
	}
	write(t, dir+"/etc", "master.cf", master+`cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
anvil unix - - n - 1 anvil
proxymap unix - - n - - proxymap
error unix - - n - - error
postlog unix-dgram n - n - 1 postlogd
`)
	run(t, exec.Command("chmod", "644", dir+"/etc/main.cf", dir+"/etc/master.cf"))
	return serves(t, at, exec.Command("postfix", "-c", dir+"/etc", "start-fg"))
}

func postfixFaults(t *testing.T) []fault {
	certs, secured, options := newShopCertificates(t), make(map[string]string), make(map[string]string)
	for name, f := range certs.files {
		secured[name] = freeAddress(t)
		options[secured[name]] = fmt.Sprintf("-o smtpd_tls_security_level=may -o {smtpd_tls_cert_file=%s} -o {smtpd_tls_key_file=%s}", f.chain, f.key)
	}
	closed := freeAddress(t)
	options[closed] = "-o {smtpd_client_restrictions=reject} -o smtpd_delay_reject=no"
	at := postfix(t, options).at
	smtp := byPlugin("smtp", object{})
	startTLS := talk(certs.tls(nil), "^220 ", "> EHLO prober.test", "^250[ -]STARTTLS", "> STARTTLS", "TLS after ^220 ")
	rows := []fault{
		{"smtp: greeting", at, smtp, "success", "220 mail.shop.test ESMTP Postfix"},
		{"smtp: no STARTTLS", at, byPlugin("smtp", object{"startTLS": true}), "failure", "the server does not offer STARTTLS"},
		{"smtp: client rejected", closed, smtp, "failure", "the greeting: the server says 554 5.7.1 …: Client host rejected: Access denied"},
		{"expect: client rejected", closed, within("1s", talk(nil, "^220 ")), "failure", `no line matches "^220 "; the last line was "554 5.7.1 …: Client host rejected: Access denied"; the deadline of 1s has passed`},
		{"expect: no STARTTLS", at, within("1s", startTLS), "failure", `step 3: no line matches "^250[ -]STARTTLS"; the last line was "250 …"; the deadline of 1s has passed`},
		{"smtp: redis at the port", redisServer(t).at, within("1s", smtp), "failure", noGreeting},
		{"expect: cut greeting", cut(t, at, 8), talk(nil, "^220 .*Postfix"), "failure", `the peer ended without "^220 .*Postfix"; its last line was "220 mail"`},
		{"smtp: cut greeting", cut(t, at, 8), smtp, "failure", `the greeting: the server closed the connection after 8 bytes, "220 mail"`},
	}
	rows = append(rows, down(t, postfix(t, nil), smtp, noGreeting)...)
	return append(rows, certs.faults(secured, startTLS, "step 5: starttls: ", `connected in … ms: "220 2.0.0 Ready to start TLS"`)...)
}

// dovecot starts a server of IMAP, with TLS at another address if there are certificates.
func dovecot(t *testing.T, certs *certificateFiles) (plain *server, secured string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "prober-e2e-") // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	run(t, exec.Command("chmod", "755", dir))
	at := freeAddress(t)
	_, port, _ := net.SplitHostPort(at)
	tls := "ssl = no"
	securePort := "0"
	if certs != nil {
		secured = freeAddress(t)
		_, securePort, _ = net.SplitHostPort(secured)
		tls = fmt.Sprintf("ssl = yes\nssl_cert = <%s\nssl_key = <%s", certs.chain, certs.key)
	}
	config := fmt.Sprintf(`protocols = imap
base_dir = %s/run
state_dir = %[1]s/state
log_path = /dev/stderr
listen = 127.0.0.1
disable_plaintext_auth = no
auth_failure_delay = 0
mail_location = maildir:%[1]s/mail
%[2]s
service imap-login {
  inet_listener imap {
    port = %[3]s
  }
  inet_listener imaps {
    port = %[4]s
    ssl = yes
  }
}
service anvil {
  unix_listener anvil-auth-penalty {
    mode = 0
  }
}
passdb {
  driver = static
  args = password=sesame
}
userdb {
  driver = static
  args = uid=nobody gid=nogroup home=%[1]s/home
}
`, dir, tls, port, securePort)
	return serves(t, at, exec.Command("dovecot", "-F", "-c", file(t, "dovecot.conf", config))), secured
}

func dovecotFaults(t *testing.T) []fault {
	certs, secured := newShopCertificates(t), make(map[string]string)
	for name, f := range certs.files {
		_, secured[name] = dovecot(t, &f)
	}
	s, _ := dovecot(t, nil)
	hangs, _ := dovecot(t, nil)
	greeting := talk(nil, `^\* OK`)
	login := func(password string) object {
		return within("6s", talk(object{"timeout": "5s"}, `^\* OK`, "> a LOGIN shop "+password, `^a OK`))
	}
	rows := []fault{
		{"greeting", s.at, greeting, "success", `connected in … ms: "* OK …"`},
		{"wrong password", s.at, login("guess"), "failure", `step 3: no line matches "^a OK"; the last line was "a NO [AUTHENTICATIONFAILED] Authentication failed."; the timeout of 5s has passed`},
		{"POP3 expected", s.at, within("1s", talk(nil, `^\+OK`)), "failure", `no line matches "^\\+OK"; the last line was "* OK …"; the deadline of 1s has passed`},
		{"cut greeting", cut(t, s.at, 3), greeting, "failure", `the peer ended without "^\\* OK"; its last line was "* O"`},
		{"TLS on a port without it", s.at, talk(object{"tls": true}, "OK"), "failure", "tls: first record does not look like a TLS handshake"},
		{"no TLS on a port with it", secured[goodCert], within("1s", greeting), "failure", "timed out after 1s: read tcp {AT}: connected after …; 0 bytes sent, 0 received"},
	}
	rows = append(rows, down(t, hangs, greeting, silence)...)
	return append(rows, certs.faults(secured, talk(certs.tls(object{"tls": true}), `^\* OK`), "", `connected in … ms: "* OK …"`)...)
}

// sshd starts an SSH server with more lines of its file.
func sshd(t *testing.T, more string) *server {
	t.Helper()
	dir, at := t.TempDir(), freeAddress(t)
	run(t, exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", dir+"/key"))
	run(t, exec.Command("mkdir", "-p", "/run/sshd"))
	path, err := exec.LookPath("sshd") // sshd runs itself by its absolute path
	if err != nil {
		t.Fatal(err)
	}
	return serves(t, at, exec.Command(path, "-D", "-e", "-f", file(t, "sshd_config", fmt.Sprintf("ListenAddress %s\nHostKey %s/key\nPidFile none\nUsePAM no\n%s", at, dir, more))))
}

func sshFaults(t *testing.T) []fault {
	at, full := sshd(t, "").at, sshd(t, "MaxStartups 1\n").at
	takeConnection(t, full, "", "SSH-2.0")
	banner := talk(nil, "^SSH-2.0-")
	web := nginxPage(t)
	rows := []fault{
		{"banner", at, banner, "success", `connected in … ms: "SSH-2.0-OpenSSH_…"`},
		{"MaxStartups", full, banner, "failure", `the peer ended without "^SSH-2.0-"; its last line was "Exceeded MaxStartups"`},
		{"old version expected", at, within("1s", talk(nil, "^SSH-1.99-")), "failure", `no line matches "^SSH-1.99-"; the last line was "SSH-2.0-OpenSSH_…"; the deadline of 1s has passed`},
		{"nginx at the port", web, within("1s", banner), "failure", "timed out after 1s: read tcp {AT}: connected after …; 0 bytes sent, 0 received"},
		{"cut banner", cut(t, at, 5), banner, "failure", `the peer ended without "^SSH-2.0-"; its last line was "SSH-2"`},
		{"slow banner", slow(t, at, 300*time.Millisecond), talk(object{"latency": object{"warn": "200ms"}}, "^SSH-2.0-"), "warning", "it took … ms, more than 200ms"},
		{"ssh: identification", at, byPlugin("ssh", object{"software": "OpenSSH_"}), "success", "SSH-2.0-OpenSSH_…"},
		{"ssh: another host key", at, byPlugin("ssh", object{"hostKey": "SHA256:" + strings.Repeat("A", 43)}), "failure", "the host key is ssh-ed25519 SHA256:…, want SHA256:AAAA…"},
		{"ssh: MaxStartups", full, byPlugin("ssh", object{}), "failure", `no identification of SSH after "Exceeded MaxStartups": the server closed the connection`},
		{"ssh: nginx at the port", web, within("1s", byPlugin("ssh", object{})), "failure", noGreeting},
		{"ssh: cut banner", cut(t, at, 5), byPlugin("ssh", object{}), "failure", `…the server closed the connection after 5 bytes, "SSH-2"`},
		{"tcpSocket: stopped", sshd(t, "").stop(), object{"tcpSocket": object{}}, "failure", "dial tcp {AT}: connect: connection refused"},
	}
	return append(rows, down(t, sshd(t, ""), banner, silence)...)
}

// slapd starts a directory with the administrator cn=admin,dc=shop.
func slapd(t *testing.T, extra string) *server {
	t.Helper()
	dir, at := t.TempDir(), freeAddress(t)
	config := fmt.Sprintf("include /etc/ldap/schema/core.schema\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\npidfile %s/pid\nargsfile %[1]s/args\n%[2]sdatabase mdb\nmaxsize 10485760\nsuffix dc=shop\nrootdn cn=admin,dc=shop\nrootpw sesame\ndirectory %[1]s\n", dir, extra)
	return serves(t, at, exec.Command("slapd", "-d", "0", "-f", file(t, "slapd.conf", config), "-h", "ldap://"+at))
}

func slapdFaults(t *testing.T) []fault {
	bind := func(at, password string) object {
		return object{"exec": object{"command": []string{"ldapwhoami", "-x", "-o", "nettimeout=1", "-H", "ldap://" + at, "-D", "cn=admin,dc=shop", "-w", password}}}
	}
	certs := newShopCertificates(t)
	secured := make(map[string]string)
	for name, f := range certs.files {
		secured[name] = slapd(t, fmt.Sprintf("TLSCACertificateFile %q\nTLSCertificateFile %[1]q\nTLSCertificateKeyFile %q\n", f.chain, f.key)).at
	}
	ldap := func(fields object) object { return byPlugin("ldap", fields) }
	admin := func(fields object) object {
		maps.Copy(fields, object{"bindDN": "cn=admin,dc=shop", "password": "sesame"})
		return ldap(fields)
	}
	const silentBind = "no answer to the bind; the deadline of 1s has passed"
	strict := slapd(t, "disallow bind_anon\nsecurity simple_bind=128\n").at
	web := nginxPage(t)
	expiry := byPlugin("tls-expiry", object{"starttls": "ldap", "serverName": "shop.test", "ca": certs.root, "failDays": 1})
	at, closed, frozen := slapd(t, "").at, freeAddress(t), slapd(t, "").freeze()
	rows := []fault{
		{"ldapwhoami: bind", at, bind(at, "sesame"), "success", "dn:cn=admin,dc=shop"},
		{"ldapwhoami: wrong password", at, bind(at, "guess"), "failure", "ldap_bind: Invalid credentials (49)"},
		{"ldapwhoami: stopped", closed, bind(closed, "sesame"), "failure", "ldap_sasl_bind(SIMPLE): Can't contact LDAP server (-1)"},
		{"ldapwhoami: SIGSTOP", frozen, within("500ms", bind(frozen, "sesame")), "failure", `command timed out: "ldapwhoami …" timed out after 500ms: still running; no output`},
		{"tls-expiry: no STARTTLS", at, expiry, "failure", "ldap: the server does not offer TLS: result code 2, protocolError"},
		{"tls-expiry: good certificate", secured[goodCert], expiry, "success", "…CN=shop.test ends in 89 days…"},
		{"tls-expiry: self-signed certificate", secured[selfSignedCert], expiry, "failure", `tls: failed to verify certificate: x509: certificate signed by unknown authority: self-signed certificate "CN=shop.test"; CN=shop.test ends in 89 days, at …`},
		{"bind and search", at, admin(object{}), "success", "bound; the search found 1 entry"},
		{"wrong password", at, ldap(object{"bindDN": "cn=admin,dc=shop", "password": "guess"}), "failure", "the bind: invalid credentials (49)"},
		{"no anonymous bind", strict, ldap(object{}), "failure", "the bind: inappropriate authentication (48): anonymous bind disallowed"},
		{"TLS is required", strict, admin(object{}), "failure", "the bind: confidentiality required (13): confidentiality required"},
		{"no base", at, admin(object{"baseDN": "dc=gone"}), "failure", "the search: no such object (32)"},
		{"empty database", at, admin(object{"baseDN": "dc=shop", "scope": "subtree"}), "failure", "the search: no such object (32)"},
		{"too few entries", at, admin(object{"entries": object{"min": 2}}), "failure", "the number of entries is 1, below 2"},
		{"no STARTTLS", at, ldap(object{"startTLS": true}), "failure", "the server does not start TLS: protocol error (2): unsupported extended operation"},
		{"TLS on a port without it", at, ldap(object{"tls": true}), "failure", "tls: …"},
		{"nginx at the port", web, ldap(object{}), "failure", `not LDAP: it sent "HTTP/1.1 400 Bad Request"`},
		{"redis at the port", redisServer(t).at, within("1s", ldap(object{})), "failure", silentBind},
		{"cut answer", cut(t, at, 8), ldap(object{}), "failure", "the bind: the server closed the connection after 8 bytes"},
	}
	rows = append(rows, down(t, slapd(t, ""), ldap(object{}), silentBind)...)
	return append(rows, certs.faults(secured, ldap(certs.tls(object{"startTLS": true})), "starttls: ", "bound; the search found 1 entry")...)
}

func mosquittoFaults(t *testing.T) []fault {
	dir := dataFolder(t)
	start := func(more string) *server {
		at := freeAddress(t)
		host, port, _ := net.SplitHostPort(at)
		return serves(t, at, exec.Command("mosquitto", "-c", file(t, "mosquitto.conf", fmt.Sprintf("user root\npersistence false\nlistener %s %s\n%s", port, host, more))))
	}
	passwords := filepath.Join(dir, "passwords")
	run(t, exec.Command("mosquitto_passwd", "-b", "-c", passwords, "shop", "sesame"))
	publish := func(at, password string) object {
		_, port, _ := net.SplitHostPort(at)
		return object{"exec": object{"command": []string{"mosquitto_pub", "-h", "127.0.0.1", "-p", port, "-t", "shop/probe", "-m", "x", "-u", "shop", "-P", password}}}
	}
	mqtt := func(fields object) object { return byPlugin("mqtt", fields) }
	user := func(fields object) object {
		maps.Copy(fields, object{"username": "shop", "password": "sesame"})
		return mqtt(fields)
	}
	const silentConnect = "no answer to CONNECT; the deadline of 1s has passed"
	web := nginxPage(t)
	certs, secured := newShopCertificates(t), make(map[string]string)
	for name, f := range certs.files {
		secured[name] = start(fmt.Sprintf("allow_anonymous true\ncertfile %s\nkeyfile %s\n", f.chain, f.key)).at
	}
	write(t, dir, "acl", "user shop\ntopic readwrite shop/probe\ntopic read shop/status\n")
	at, closed := start("password_file "+passwords+"\nacl_file "+filepath.Join(dir, "acl")+"\n").at, freeAddress(t)
	open := start("allow_anonymous true\n").at
	rows := []fault{
		{"mosquitto_pub: publish", at, publish(at, "sesame"), "success", ""},
		{"mosquitto_pub: wrong password", at, publish(at, "guess"), "failure", "Connection error: Connection Refused: not authorised. Error: The connection was refused."},
		{"mosquitto_pub: stopped", closed, publish(closed, "sesame"), "failure", "Error: Connection refused"},
		{"tcpSocket", open, object{"tcpSocket": object{}}, "success", ""},
		{"expect: TLS on a port without it", open, talk(certs.tls(object{"tls": true})), "failure", "tls: read tcp …->{AT}: read: connection reset by peer"},
		{"expect: expired", secured[expiredCert], talk(certs.tls(object{"tls": true})), "failure", "tls: failed to verify certificate: x509: certificate has expired …"},
		{"ping", open, mqtt(object{}), "success", "connected"},
		{"wrong password", at, mqtt(object{"username": "shop", "password": "guess"}), "failure", "the broker refuses the connection: not authorized"},
		{"no user", at, mqtt(object{}), "failure", "the broker refuses the connection: not authorized"},
		{"round trip", open, mqtt(object{"roundTrip": "shop/probe"}), "success", `a message to "shop/probe" came back`},
		{"round trip with a password", at, user(object{"roundTrip": "shop/probe"}), "success", `a message to "shop/probe" came back`},
		{"no permission to publish", at, within("1s", user(object{"roundTrip": "shop/status"})), "failure", `the message to "shop/status" did not come back; the deadline of 1s has passed`},
		{"no retained message", open, within("1s", mqtt(object{"message": object{"topic": "status"}})), "failure", `no message of "status"; the deadline of 1s has passed`},
		{"TLS on a port without it", open, mqtt(object{"tls": true}), "failure", "tls: …"},
		{"no TLS on a port with it", secured[goodCert], mqtt(object{}), "failure", "CONNECT: …"},
		{"nginx at the port", web, mqtt(object{}), "failure", `not MQTT: it sent "HTTP/1.1 400 Bad Request"`},
		{"redis at the port", redisServer(t).at, within("1s", mqtt(object{})), "failure", silentConnect},
		{"cut answer", cut(t, open, 3), mqtt(object{}), "failure", "CONNECT: the server closed the connection after 3 bytes"},
	}
	rows = append(rows, down(t, start("allow_anonymous true\n"), mqtt(object{}), silentConnect)...)
	return append(rows, certs.faults(secured, mqtt(certs.tls(object{"tls": true})), "", "connected")...)
}
