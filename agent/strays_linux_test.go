package agent_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRunEndsProcessesThatLeftTheirGroup starts a process in a new session from an exec probe. The end of the
// attempt does not end it, but the end of the agent does.
func TestRunEndsProcessesThatLeftTheirGroup(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	fd := -1
	t.Run("agent", func(t *testing.T) { // the agent has ended when it returns
		r := start(t, `apiVersion: v1
kind: Pod
metadata:
  name: strays
  annotations:
    prober.dev/probes: |
      web:
        readiness:
          exec:
            command:
            - sh
            - -c
            - |
              [ -e `+file+` ] || setsid sh -c 'echo $$$$ >`+file+`.new; mv `+file+`.new `+file+`; exec sleep 1000' >/dev/null 2>&1 &
              until [ -e `+file+` ]; do sleep 0.02; done
          period: 100ms
          timeout: 1m
spec:
  containers:
  - name: web
`)
		r.lines.await(t, 0, "result changed", "result=success")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		if fd, err = unix.PidfdOpen(pid, 0); err != nil {
			t.Fatalf("the process has ended with its attempt: %v", err)
		}
	})
	if fd < 0 {
		return
	}
	defer unix.Close(fd)
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, 10_000); n != 1 { // it was killed, and may take a moment to end
		t.Errorf("the process outlives the agent, %v", err)
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}
