//go:build e2e

package e2e

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

// startCoturn starts a server, and returns its addresses without and with TLS.
func startCoturn(t *testing.T, cert, key string) (plain, secured string) {
	t.Helper()
	plain, secured = freeAddress(t), freeAddress(t)
	host, port, _ := net.SplitHostPort(plain)
	_, tlsPort, _ := net.SplitHostPort(secured)
	listening(t, plain, unprivileged(t, "turnserver", "-n", "--stun-only", "--no-cli", "--no-dtls", "--listening-ip", host, "--listening-port", port,
		"--tls-listening-port", tlsPort, "--cert", cert, "--pkey", key, "--log-file", "stdout", "--pidfile", filepath.Join(dataFolder(t), "pid")))
	return plain, secured
}

func TestShippedSTUN(t *testing.T) {
	t.Parallel()
	cert, key, ca := pemFiles(t, selfSigned(t, 24*time.Hour))
	plain, secured := startCoturn(t, cert, key)
	runShipped(t, "stun", plain, []shippedCase{
		{"over UDP", `{}`, "success", "seen as 127.0.0.1:"},
		{"name of the server", `{}`, "success", " by Coturn"},
		{"wanted address", `{"address":"127.0.0.1"}`, "success", "seen as 127.0.0.1:"},
		{"another address", `{"address":"203.0.113.7"}`, "failure", "the server sees the address 127.0.0.1, want 203.0.113.7"},
		{"over TCP", `{"protocol":"tcp"}`, "success", "seen as 127.0.0.1:"},
	})
	trusted := `"tls":true,"tlsConfig":{"serverName":"mail.example.com","ca":` + jsonText(t, ca) + `}`
	runShipped(t, "stun", secured, []shippedCase{
		{"over TLS", `{` + trusted + `}`, "success", "seen as 127.0.0.1:"},
		{"certificate that ends soon", `{"certificateAge":{"warn":"48h"},` + trusted + `}`, "warning", "less than 48h"},
		{"unknown authority", `{"tls":true}`, "failure", "certificate"},
	})
	runShipped(t, "stun", freeAddress(t), []shippedCase{{"stopped server", `{}`, "failure", "refused"}})
	runShipped(t, "stun", saying(t, "220 mail.example.com\r\n"), []shippedCase{{"another protocol", `{"protocol":"tcp"}`, "failure", `not STUN: it sent "220 mail.example.com"`}})
}
