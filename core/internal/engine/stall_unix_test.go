//go:build unix

package engine_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/daeace23/prober/probe"
)

// An agent that is suspended while its target answers notices the timeout late. It must not count the
// timeout as a failure of the target.
func TestStoppedAgent(t *testing.T) {
	for compat, want := range map[probe.Compat]string{
		0:                       "unknown after 1 attempts, decided Success",
		probe.CompatHostTrouble: "failure after 1 attempts, decided Failure",
	} {
		t.Run(fmt.Sprintf("compat=%d", compat), func(t *testing.T) {
			t.Parallel()
			agent := exec.CommandContext(t.Context(), os.Args[0])
			agent.Env = append(os.Environ(), fmt.Sprintf("%s=%d", stallEnv, compat))
			agent.Stderr = os.Stderr
			out, err := agent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := agent.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			lines.Scan() // the first attempt has begun
			stop(t, agent.Process.Pid)
			time.Sleep(1200 * time.Millisecond) // longer than the timeout
			_ = syscall.Kill(agent.Process.Pid, syscall.SIGCONT)
			lines.Scan()
			if got := lines.Text(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if err := agent.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// stop stops a child process, and waits until it has stopped.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("%v, %v", status, err)
	}
}
