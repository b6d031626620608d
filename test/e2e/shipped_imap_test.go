//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// mailboxes is a server of IMAP and POP3, each also with TLS at another address.
type mailboxes struct{ imap, imaps, pop3, pop3s string }

// startDovecot starts a server with the user probe, whose INBOX has two messages, one of which is unseen.
func startDovecot(t *testing.T, cert, key string) mailboxes {
	t.Helper()
	dir, err := os.MkdirTemp("", "prober-e2e-") // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, folder := range []string{"mail", "mail/probe", "mail/probe/cur", "mail/probe/new", "mail/probe/tmp"} {
		path := filepath.Join(dir, folder)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		giveAway(t, path)
	}
	for _, name := range []string{"cur/1.a.host:2,S", "new/2.b.host"} {
		path := filepath.Join(dir, "mail/probe", name)
		if err := os.WriteFile(path, []byte("Subject: hello\n\nhello\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		giveAway(t, path)
	}
	if err := os.WriteFile(filepath.Join(dir, "users"), []byte("probe:open sesame\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m := mailboxes{freeAddress(t), freeAddress(t), freeAddress(t), freeAddress(t)}
	port := func(address string) string {
		_, p, _ := net.SplitHostPort(address)
		return p
	}
	config := fmt.Sprintf(`protocols = imap pop3
base_dir = %[1]s/run
state_dir = %[1]s/state
log_path = /dev/stderr
listen = 127.0.0.1
auth_failure_delay = 0
ssl = yes
ssl_cert = <%[2]s
ssl_key = <%[3]s
mail_location = maildir:%[1]s/mail/%%u
service imap-login {
  inet_listener imap {
    port = %[4]s
  }
  inet_listener imaps {
    port = %[5]s
    ssl = yes
  }
}
service pop3-login {
  inet_listener pop3 {
    port = %[6]s
  }
  inet_listener pop3s {
    port = %[7]s
    ssl = yes
  }
}
service anvil {
  unix_listener anvil-auth-penalty {
    mode = 0
  }
}
passdb {
  driver = passwd-file
  args = scheme=PLAIN %[1]s/users
}
userdb {
  driver = static
  args = uid=nobody gid=nogroup home=%[1]s/home
}
`, dir, cert, key, port(m.imap), port(m.imaps), port(m.pop3), port(m.pop3s))
	serves(t, m.pop3s, exec.Command("dovecot", "-F", "-c", file(t, "dovecot.conf", config)))
	return m
}

func TestShippedIMAP(t *testing.T) {
	t.Parallel()
	cert, key, ca := pemFiles(t, selfSigned(t, 24*time.Hour))
	m := startDovecot(t, cert, key)
	tlsConfig := `"tlsConfig":{"serverName":"mail.example.com","ca":` + jsonText(t, ca) + `}`
	const login = `"username":"probe","password":"open sesame",`
	runShipped(t, "imap", m.imap, []shippedCase{
		{"greeting", `{"capabilities":["IMAP4rev1","STARTTLS"]}`, "success", "Dovecot"},
		{"missing capability", `{"capabilities":["XLIST"]}`, "failure", "the server does not offer XLIST"},
		{"STARTTLS", `{"startTLS":true,` + tlsConfig + `}`, "success", "Dovecot"},
		{"login", `{"startTLS":true,` + login + tlsConfig + `}`, "success", "Dovecot"},
		{"certificate of an unknown authority", `{"startTLS":true}`, "failure", "certificate"},
	})
	runShipped(t, "imap", m.imaps, []shippedCase{
		{"messages", `{"tls":true,` + login + `"messages":{"min":2,"max":2},"capabilities":["AUTH=PLAIN","UIDPLUS"],` + tlsConfig + `}`, "success", "INBOX has 2 messages, 1 unseen"},
		{"too many unseen messages", `{"tls":true,` + login + `"unseen":{"max":0},` + tlsConfig + `}`, "failure", "the number of unseen messages in INBOX is 1, above 0"},
		{"missing mailbox", `{"tls":true,` + login + `"mailbox":"lost",` + tlsConfig + `}`, "failure", "STATUS: the server says NO"},
		{"wrong password", `{"tls":true,"username":"probe","password":"guess",` + tlsConfig + `}`, "failure", "the login: the server says NO [AUTHENTICATIONFAILED]"},
		{"certificate that ends soon", `{"tls":true,"certificateAge":{"warn":"48h"},` + tlsConfig + `}`, "warning", "less than 48h"},
	})
	runShipped(t, "imap", m.pop3, []shippedCase{{"POP3 at the port", `{}`, "failure", `not IMAP: it sent "+OK Dovecot`}})
	runShipped(t, "imap", freeAddress(t), []shippedCase{{"connection refused", `{}`, "failure", "refused"}})
}
