package local_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/pods/local"
	"github.com/daeace23/prober/pods/local/manifest"
)

// runAgent is the helper "agent": it runs the pods of a manifest until it is killed.
func runAgent(path string) int {
	err := func() error {
		loaded, err := (&manifest.Source{Paths: []string{path}}).Load(context.Background())
		if err != nil {
			return err
		}
		host := testHost()
		host.Output = os.Stdout
		pods, err := local.New(local.Config{}, host)
		if err != nil {
			return err
		}
		registry := &handlers.Registry{}
		err = builtin.Register(registry, builtin.Config{Runner: &builtin.HostRunner{Environment: pods.Environment, User: pods.User}})
		if err != nil {
			return err
		}
		m, err := manager.New(manager.Config{Status: pods, Handlers: registry})
		if err != nil {
			return err
		}
		pods.Start(m)
		return pods.Apply(context.Background(), loaded.Pods)
	}()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	wait()
	return 0
}

func TestKilledAgentLeavesNoProcess(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		command string
		least   int // minimum number of processes with the mark
	}{
		"of a container and its exec probe":       {"[SELF, " + helperArgument + ", forker, MARK]", 8},
		"of the exec probe of an external target": {"[]", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mark := fmt.Sprintf("mark-%d-%d", os.Getpid(), time.Now().UnixNano())
			dir := t.TempDir()
			manifest, pipe := filepath.Join(dir, "pod.yaml"), filepath.Join(dir, "pipe")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			text := strings.NewReplacer("SELF", self, "MARK", mark, "PIPE", pipe).Replace(`
apiVersion: v1
kind: Pod
metadata:
  name: pod
  annotations:
    prober.dev/probes: |
      c: {liveness: {exec: {command: [sh, -c, "export M=MARK; setsid sleep 600 & echo probing > PIPE; wait"]}, period: 10ms, timeout: 1h}}
spec:
  containers:
  - name: c
    command: ` + c.command)
			if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			agent := exec.Command(self, helperArgument, "agent", manifest)
			if err := agent.Start(); err != nil {
				t.Fatal(err)
			}
			if said, err := os.ReadFile(pipe); err != nil || string(said) != "probing\n" { // wait for the exec probe
				t.Fatalf("%q, %v", said, err)
			}
			// During exec, a process has no environment for a moment.
			for giveUp := time.Now().Add(patience); len(marked(t, mark)) < c.least; {
				if time.Now().After(giveUp) {
					t.Fatalf("%d processes before the kill, want at least %d", len(marked(t, mark)), c.least)
				}
			}
			if err := agent.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			_ = agent.Wait()
			awaitEndOf(t, mark)
		})
	}
}

// awaitEndOf waits until no process with the mark is left. It scans again, since a process has no environment
// during exec.
func awaitEndOf(t *testing.T, mark string) {
	t.Helper()
	for left := marked(t, mark); len(left) > 0 && !t.Failed(); left = marked(t, mark) {
		for _, pid := range left {
			awaitEnd(t, pid)
		}
	}
}

// awaitEnd waits until a process has ended. It may be a zombie.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has ended
	}
	defer unix.Close(fd)
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, int(patience.Milliseconds()))
	for err == unix.EINTR {
		n, err = unix.Poll(fds, int(patience.Milliseconds()))
	}
	if n == 0 || err != nil {
		t.Errorf("process %d: still there: %v", pid, err)
	}
}
