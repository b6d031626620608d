//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package agent_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daeace23/prober/agent"
)

// Tests that lock a state directory twice are not parallel: a child process that another test is starting
// holds a copy of the lock until its exec.
//
// The error of a second agent names the process of the first. The lock is released when an agent ends, and
// when New fails.
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

// A folder without write permission stands for a read-only disk.
func TestNewUnwritableLockIsIgnored(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	if os.Geteuid() == 0 {
		state = "/sys"
	} else if err := os.Chmod(state, 0o500); err != nil {
		t.Fatal(err)
	}
	start(t, newTarget(t).external("web"), func(c *agent.Config) { c.StateDir = state })
}

func TestNewUnsafeLockFileIsError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pods.yaml")
	write(t, path, newTarget(t).external("web"))
	for want, prepare := range map[string]func(lock string) error{
		"not a regular file": func(lock string) error { return syscall.Mkfifo(lock, 0o600) },
		"symbolic link":      func(lock string) error { return os.Symlink(path, lock) },
		"lets everybody":     func(lock string) error { return errors.Join(os.WriteFile(lock, nil, 0o600), os.Chmod(lock, 0o666)) },
	} {
		state := t.TempDir()
		if err := prepare(filepath.Join(state, "lock")); err != nil {
			t.Fatal(err)
		}
		_, err := agent.New(t.Context(), agent.Config{Source: fromFiles(0, path), StateDir: state, Listen: "127.0.0.1:0"})
		if err == nil || !strings.HasPrefix(err.Error(), "state directory: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}
