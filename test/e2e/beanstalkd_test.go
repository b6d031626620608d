//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
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

// TestBeanstalkd probes with a plugin in C.
func TestBeanstalkd(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	host, port, _ := net.SplitHostPort(address)
	listening(t, address, exec.Command("beanstalkd", "-l", host, "-p", port))
	beanstalk(t, address, "use mail\r\nput 0 0 60 2\r\nhi\r\nput 0 0 60 2\r\nho\r\n", "INSERTED 2")
	beanstalk(t, address, "watch mail\r\nreserve\r\nbury 1 0\r\n", "BURIED")
	for _, c := range []struct{ name, config, result, text string }{
		{"all tubes", `{"maxBuried":1}`, "success", "1 jobs wait, 0 are with workers, 1 are buried"},
		{"one tube", `{"tube":"default"}`, "success", "0 jobs wait"},
		{"waiting jobs", `{"tube":"mail","maxReady":0}`, "warning", "1 jobs wait for a worker, more than 0"},
		{"buried jobs", `{"tube":"mail"}`, "warning", "1 jobs are buried, more than 0"},
		{"no such tube", `{"tube":"lost"}`, "failure", "no tube lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, code := probePlugin(t, "beanstalkd", address, c.config)
			want(t, v, code, c.result, c.text)
		})
	}
	t.Run("another protocol", func(t *testing.T) {
		v, code := probePlugin(t, "beanstalkd", redis(t), `{}`)
		want(t, v, code, "failure", "no statistics: the server says -ERR")
	})
	t.Run("connection refused", func(t *testing.T) {
		v, code := probePlugin(t, "beanstalkd", freeAddress(t), `{}`)
		want(t, v, code, "failure", "refused")
	})
}

// beanstalk sends commands and waits for a line of the answers.
func beanstalk(t *testing.T, address, commands, line string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, commands)
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if lines.Text() == line {
			return
		}
	}
	t.Fatalf("no answer %q to %q", line, commands)
}
