//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/daeace23/prober/agent"
)

// Tests that lock a state directory twice are not parallel: a process that another test is
// starting has a copy of the lock until it is executed.
//
// The error of a second agent has the process of the first. The lock is released when an agent
// ends, and when New fails.
func TestNewStateDirectoryInUseIsError(t *testing.T) {
	state, web := filepath.Join(t.TempDir(), "state"), newTarget(t)
	mine := func(c *agent.Config) { c.StateDir = state }
	r := start(t, web.external("web"), mine)
	path := filepath.Join(t.TempDir(), "pods.yaml")
	write(t, path, web.external("web"))
	want := fmt.Sprintf("state directory %s is in use by another prober (pid %d)", state, os.Getpid())
	if _, err := agent.New(t.Context(), agent.Config{Source: fromFiles(0, path), StateDir: state, Listen: "127.0.0.1:0"}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	write(t, path, "oops")
	if _, err := agent.New(t.Context(), agent.Config{Source: fromFiles(0, path), StateDir: state, Listen: "127.0.0.1:0"}); err == nil {
		t.Error("it is no manifest")
	}
	start(t, web.external("web"), mine)
}

// A named pipe, which cannot be truncated, stands for a full disk.
func TestNewUnwritableLockIsIgnored(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(state, "lock"), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, newTarget(t).external("web"), func(c *agent.Config) { c.StateDir = state })
}
