//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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

func TestShippedNATS(t *testing.T) {
	t.Parallel()
	cert, key, ca := pemFiles(t, selfSigned(t, 24*time.Hour))
	plain, stop := nats(t)
	runShipped(t, "nats", plain, []shippedCase{
		{"no login is required", `{}`, "success", "alpha, NATS 2."},
		{"login although none is required", `{"username":"probe","password":"open sesame"}`, "success", "answers"},
		{"TLS that is not there", `{"tls":true}`, "failure", "alpha does not offer TLS"},
		{"round trip", `{"roundTrip":"prober.check"}`, "success", `a message to "prober.check" came back`},
		{"no JetStream", `{"jetstream":true}`, "failure", "has no JetStream"},
	})
	stop()
	runShipped(t, "nats", plain, []shippedCase{{"stopped server", `{}`, "failure", "refused"}})
	jetstream, _ := nats(t, "--jetstream", "--store_dir", t.TempDir())
	runShipped(t, "nats", jetstream, []shippedCase{{"JetStream", `{"jetstream":true}`, "success", "answers"}})
	users, _ := nats(t, "-c", publicConfig(t, `authorization { users = [{user: probe, password: "open sesame", permissions: {publish: "prober.>", subscribe: "prober.>"}}] }`))
	runShipped(t, "nats", users, []shippedCase{
		{"with a password", `{"username":"probe","password":"open sesame","roundTrip":"prober.check"}`, "success", "came back"},
		{"subject without permission", `{"username":"probe","password":"open sesame","roundTrip":"shop"}`, "failure", "the server refuses: Permissions Violation for"},
		{"with a wrong password", `{"username":"probe","password":"guess"}`, "failure", "the server refuses: Authorization Violation"},
		{"without a password", `{}`, "failure", "the server refuses: Authorization Violation"},
	})
	token, _ := nats(t, "--auth", "open sesame")
	runShipped(t, "nats", token, []shippedCase{
		{"with a token", `{"token":"open sesame"}`, "success", "answers"},
		{"with a wrong token", `{"token":"guess"}`, "failure", "the server refuses: Authorization Violation"},
	})
	secured, _ := nats(t, "--tls", "--tlscert", cert, "--tlskey", key)
	trusted := `"tlsConfig":{"serverName":"mail.example.com","ca":` + jsonText(t, ca) + `}`
	runShipped(t, "nats", secured, []shippedCase{
		{"TLS that the server requires", `{` + trusted + `}`, "success", "answers"},
		{"TLS that both want", `{"tls":true,` + trusted + `}`, "success", "answers"},
		{"certificate that ends soon", `{"certificateAge":{"warn":"48h"},` + trusted + `}`, "warning", "less than 48h"},
		{"unverified certificate", `{"tlsConfig":{"insecureSkipVerify":true}}`, "success", "answers"},
		{"certificate of an unknown authority", `{"tlsConfig":{"serverName":"mail.example.com"}}`, "failure", "certificate signed by unknown authority"},
	})
	runShipped(t, "nats", saying(t, "220 mail.example.com\r\n"), []shippedCase{{"another protocol", `{}`, "failure", `not NATS: it sent "220 mail.example.com"`}})
	t.Run("too many connections", func(t *testing.T) {
		full, _ := nats(t, "-c", publicConfig(t, "max_connections: 1"))
		var conn net.Conn
		await(t, "the only connection", func() (ok bool) {
			conn, ok = natsClient(t, full)
			return ok
		})
		defer conn.Close()
		v, code := probeShipped(t, "nats", full, `{}`)
		want(t, v, code, "failure", "the server refuses: maximum connections exceeded")
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
