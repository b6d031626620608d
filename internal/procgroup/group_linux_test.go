package procgroup_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/daeace23/prober/internal/procgroup"
)

// shell returns a command and the pipe that it writes to.
func shell(t *testing.T, script string, env ...string) (*exec.Cmd, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: append(env, "PATH="+os.Getenv("PATH")), Stdout: w, SysProcAttr: procgroup.BoundAttr()}, r
}

func readPID(t *testing.T, r *os.File) int {
	t.Helper()
	line := make([]byte, 32)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// awaitGone waits until pid has ended, reaped or not.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	for t.Context().Err() == nil {
		data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || bytes.Contains(data, []byte(") Z ")) {
			return
		}
	}
	t.Errorf("process %d still runs", pid)
}

func TestRunKillsGroup(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		cancel bool
	}{
		"after its end":     {"sleep 1000 & echo $!", false},
		"at the end of ctx": {"sleep 1000 & echo $!; wait", true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cmd, out := shell(t, c.script)
			pid := 0
			killed, err := procgroup.Run(ctx, cmd, func() {
				pid = readPID(t, out)
				if c.cancel {
					cancel()
				}
			})
			if killed != c.cancel || (err != nil) != c.cancel {
				t.Errorf("got %v, killed %t", err, killed)
			}
			awaitGone(t, pid)
		})
	}
}

func TestRunReturnsExitError(t *testing.T) {
	cmd, _ := shell(t, "exit 3")
	killed, err := procgroup.Run(t.Context(), cmd, nil)
	if exit, ok := errors.AsType[*exec.ExitError](err); killed || !ok || procgroup.ExitStatus(exit.ProcessState) != 3 {
		t.Errorf("got %v, killed %t", err, killed)
	}
	missing := &exec.Cmd{Path: "/nonexistent", SysProcAttr: procgroup.BoundAttr()}
	if _, err := procgroup.Run(t.Context(), missing, func() { t.Error("it was started") }); !errors.Is(err, os.ErrNotExist) || missing.Process != nil {
		t.Errorf("got %v", err)
	}
}

func TestExitStatusOfSignal(t *testing.T) {
	cmd, _ := shell(t, "kill -TERM $$")
	if _, err := procgroup.Run(t.Context(), cmd, nil); err == nil || procgroup.ExitStatus(cmd.ProcessState) != 128+int(syscall.SIGTERM) {
		t.Errorf("got %v, status %d", err, procgroup.ExitStatus(cmd.ProcessState))
	}
}

func TestDrainDoesNotWait(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := w.WriteString("head and tail"); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	procgroup.Drain(r, &got, 4)
	procgroup.Drain(r, &got, 100)
	procgroup.Drain(r, &got, 100) // the pipe is empty
	if got.String() != "head and tail" {
		t.Errorf("got %q", got.String())
	}
}
