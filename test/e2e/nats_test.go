//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// nats starts a server with args and returns its address, and a function that stops it.
func nats(t *testing.T, args ...string) (address string, stop func()) {
	t.Helper()
	address = freeAddress(t)
	host, port, _ := net.SplitHostPort(address)
	cmd := exec.Command("nats-server", append([]string{"-a", host, "-p", port, "-n", "alpha"}, args...)...)
	listening(t, address, cmd)
	return address, func() { cmd.Process.Kill(); cmd.Wait() }
}

// TestNATS probes with a plugin in C.
func TestNATS(t *testing.T) {
	cert, key, ca := pemFiles(t, selfSigned(t, 24*time.Hour))
	plain, stop := nats(t)
	users, _ := nats(t, "--user", "probe", "--pass", "open sesame")
	token, _ := nats(t, "--auth", "open sesame")
	secured, _ := nats(t, "--tls", "--tlscert", cert, "--tlskey", key)
	trusted := `"serverName":"mail.example.com","ca":` + jsonText(t, ca)
	for _, c := range []struct{ name, address, config, result, text string }{
		{"no login is required", plain, `{}`, "success", "alpha, NATS 2."},
		{"login although none is required", plain, `{"user":"probe","password":"open sesame"}`, "success", "answers"},
		{"TLS that is not there", plain, `{"tls":true}`, "failure", "alpha does not offer TLS"},
		{"with a password", users, `{"user":"probe","password":"open sesame"}`, "success", "answers"},
		{"with a wrong password", users, `{"user":"probe","password":"guess"}`, "failure", "the server says 'Authorization Violation'"},
		{"without a password", users, `{}`, "failure", "'Authorization Violation'"},
		{"with a token", token, `{"token":"open sesame"}`, "success", "answers"},
		{"with a wrong token", token, `{"token":"guess"}`, "failure", "'Authorization Violation'"},
		{"TLS that the server requires", secured, `{` + trusted + `}`, "success", "answers"},
		{"TLS that both want", secured, `{"tls":true,` + trusted + `}`, "success", "answers"},
		{"unverified certificate", secured, `{"verify":"none"}`, "success", "answers"},
		{"certificate of an unknown authority", secured, `{"serverName":"mail.example.com"}`, "failure", "certificate signed by unknown authority"},
		{"server is not NATS", saying(t, "220 mail.example.com\r\n"), `{}`, "failure", "no NATS: the server says 220 mail.example.com"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, code := probePlugin(t, "nats", c.address, c.config)
			want(t, v, code, c.result, c.text)
			if strings.Contains(v.Output, "guess") || strings.Contains(v.Output, "sesame") {
				t.Errorf("the output tells the password: %q", v.Output)
			}
		})
	}
	t.Run("too many connections", func(t *testing.T) {
		full, _ := nats(t, "-c", publicConfig(t, "max_connections: 1"))
		var conn net.Conn
		await(t, "the only connection", func() (ok bool) {
			conn, ok = natsClient(t, full)
			return ok
		})
		defer conn.Close()
		v, code := probePlugin(t, "nats", full, `{}`)
		want(t, v, code, "failure", "the server says 'maximum connections exceeded'")
	})
	t.Run("stopped server", func(t *testing.T) {
		stop()
		v, code := probePlugin(t, "nats", plain, `{}`)
		want(t, v, code, "failure", "refused")
	})
}

// natsClient logs in. It retries while the server still counts a closed connection.
func natsClient(t *testing.T, address string) (conn net.Conn, ok bool) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "CONNECT {}\r\nPING\r\n")
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if lines.Text() == "PONG" {
			return conn, true
		}
	}
	conn.Close()
	return nil, false
}

// publicConfig writes a file that unprivileged commands can read, regardless of the umask.
func publicConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(dataFolder(t), "config")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	giveAway(t, path)
	return path
}
