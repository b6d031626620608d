//go:build e2e

package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// listening starts a server and waits until it accepts connections at address. At the end of the test it
// kills the server, and logs its output if the test failed.
func listening(t *testing.T, address string, cmd *exec.Cmd) {
	t.Helper()
	said := filepath.Join(t.TempDir(), "said")
	file, err := os.Create(said)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGKILL)
		cmd.Wait()
		if text, err := os.ReadFile(said); t.Failed() {
			t.Logf("%s at %s has said %s, %v", filepath.Base(cmd.Path), address, text[max(0, len(text)-2000):], err)
		}
	})
	await(t, address+" to listen", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// TestMemcached probes with a plugin in C.
func TestMemcached(t *testing.T) {
	address := freeAddress(t)
	host, port, _ := net.SplitHostPort(address)
	listening(t, address, exec.Command("memcached", "-u", "nobody", "-l", host, "-p", port, "-c", "64"))

	t.Run("answers stats", func(t *testing.T) {
		v, code := probePlugin(t, "memcached", address, `{}`)
		want(t, v, code, "success", "up for ")
		metrics := map[string]float64{}
		for _, m := range v.Metrics {
			metrics[m.Name] = m.Value
		}
		if used := metrics["connections_used_ratio"]; used <= 0 || used > 0.5 {
			t.Errorf("connections_used_ratio is %v; want a few of 64", used)
		}
		if _, ok := metrics["evictions"]; !ok || len(metrics) != 6 {
			t.Errorf("got metrics %v, want six", metrics)
		}
	})
	t.Run("above the maximum of connections", func(t *testing.T) {
		v, code := probePlugin(t, "memcached", address, `{"maxConnections":0.5}`)
		want(t, v, code, "warning", "of the connections are in use, above 0.5%")
	})
	t.Run("server is not memcached", func(t *testing.T) {
		v, code := probePlugin(t, "memcached", redis(t), `{}`)
		want(t, v, code, "failure", "no statistics: the server says -ERR")
	})
	t.Run("connection refused", func(t *testing.T) {
		v, code := probePlugin(t, "memcached", freeAddress(t), `{}`)
		want(t, v, code, "failure", "refused")
	})
}
