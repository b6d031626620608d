//go:build e2e

package e2e

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// exim starts a mail server at its own address and the others. The options in more may depend on $received_port.
func exim(t *testing.T, more string, others ...string) *server {
	t.Helper()
	dir, at := dataFolder(t), freeAddress(t)
	ports := make([]string, 0, 1+len(others))
	for _, address := range append([]string{at}, others...) {
		_, port, _ := net.SplitHostPort(address)
		ports = append(ports, port)
	}
	config := fmt.Sprintf(`spool_directory = %s
log_file_path = %[1]s/%%slog
pid_file_path = %[1]s/pid
primary_hostname = mail.shop.test
keep_environment =
host_lookup =
rfc1413_hosts =
daemon_smtp_ports = %s
%s
begin acl
begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_advertise_condition = ${if def:tls_cipher}
  server_condition = ${if and{{eq{$auth2}{shop}}{eq{$auth3}{open sesame}}}}
`, dir, strings.Join(ports, " : "), more)
	etc := t.TempDir() // exim reads only a file of root
	write(t, etc, "config", config)
	return serves(t, at, withUser(t, "Debian-exim", cmp.Or(os.Getenv("EXIM"), "exim4"), "-bdf", "-oX", "127.0.0.1", "-C", filepath.Join(etc, "config")))
}

// withUser returns a command that runs in a mount namespace whose /etc/passwd and /etc/group have a name for the user
// and the group of unprivileged commands.
func withUser(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	uid, gid := nobody(t)
	dir := t.TempDir()
	for file, line := range map[string]string{
		"passwd": fmt.Sprintf("%s:x:%d:%d::/nonexistent:/usr/sbin/nologin\n", name, uid, gid),
		"group":  fmt.Sprintf("%s:x:%d:\n", name, gid),
	} {
		all, err := os.ReadFile(filepath.Join("/etc", file))
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, file, line+string(all))
	}
	const mounts = `mount --bind "$0/passwd" /etc/passwd && mount --bind "$0/group" /etc/group && exec "$@"`
	return exec.Command("unshare", append([]string{"-m", "sh", "-c", mounts, dir}, args...)...)
}

func eximFaults(t *testing.T) []fault {
	certs, secured := newShopCertificates(t), make(map[string]string)
	locked, noTLS, rejects, implicit := freeAddress(t), freeAddress(t), freeAddress(t), freeAddress(t)
	port := func(at string) string { _, port, _ := net.SplitHostPort(at); return port }
	others := []string{locked, noTLS, rejects, implicit}
	cert, key := certs.files[goodCert].chain, certs.files[goodCert].key
	for name, f := range certs.files {
		secured[name] = freeAddress(t)
		others = append(others, secured[name])
		cert = fmt.Sprintf("${if eq{$received_port}{%s}{%s}{%s}}", port(secured[name]), f.chain, cert)
		key = fmt.Sprintf("${if eq{$received_port}{%s}{%s}{%s}}", port(secured[name]), f.key, key)
	}
	at := exim(t, fmt.Sprintf(`tls_advertise_hosts = ${if eq{$received_port}{%s}{}{*}}
tls_on_connect_ports = %s
tls_certificate = ${if eq{$received_port}{%s}{/nonexistent}{%s}}
tls_privatekey = %s
host_reject_connection = ${if eq{$received_port}{%s}{*}{}}
`, port(noTLS), port(implicit), port(locked), cert, key, port(rejects)), others...).at
	full := exim(t, "smtp_accept_max = 1\n").at
	takeConnection(t, full, "", "220 ")
	smtp := func(fields object) object { return byPlugin("smtp", fields) }
	login := func(password string) object {
		return smtp(certs.tls(object{"startTLS": true, "username": "shop", "password": password}))
	}
	const greeting = "220 mail.shop.test ESMTP Exim 4.9…"
	rows := []fault{
		{"greeting", at, smtp(object{}), "success", greeting},
		{"login", at, login("open sesame"), "success", greeting},
		{"wrong password", at, login("guess"), "failure", "the login: the server says 535 Incorrect authentication data"},
		{"host is rejected", rejects, smtp(object{}), "failure", "the greeting: the server says 554 SMTP service not available"},
		{"too many connections", full, smtp(object{}), "failure", "the greeting: the server says 421 Too many concurrent SMTP connections; please try again later."},
		{"no STARTTLS", noTLS, smtp(object{"startTLS": true}), "failure", "the server does not offer STARTTLS"},
		{"missing certificate", locked, smtp(object{"startTLS": true}), "failure", "STARTTLS: the server says 454 TLS currently unavailable"},
		{"missing extension", at, smtp(object{"extensions": []string{"SIZE", "DSN", "BURL"}}), "failure", "the server does not offer DSN; the server does not offer BURL"},
		{"TLS on a port without it", at, smtp(object{"tls": true}), "failure", "tls: first record does not look like a TLS handshake"},
		{"no TLS on a port with it", implicit, within("1s", smtp(object{})), "failure", noGreeting},
		{"implicit TLS", implicit, smtp(certs.tls(object{"tls": true})), "success", greeting},
		{"cut greeting", cut(t, at, 30), smtp(object{}), "failure", `the greeting: the server closed the connection after 30 bytes, "220 mail.shop.test ESMTP Exim"`},
		{"greeting stops", stalled(t, at, 8), within("1s", smtp(object{})), "failure", `unfinished greeting of the server: 8 bytes, "220 mail"; the deadline of 1s has passed`},
		{"nginx at the port", nginxPage(t), within("1s", smtp(object{})), "failure", noGreeting},
		{"ssh at the port", sshd(t, "").at, smtp(object{}), "failure", `not SMTP: it sent "SSH-2.0-OpenSSH_…"`},
	}
	rows = append(rows, down(t, exim(t, ""), smtp(object{}), noGreeting)...)
	return append(rows, certs.faults(secured, smtp(certs.tls(object{"startTLS": true})), "starttls: ", greeting)...)
}
