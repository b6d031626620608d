package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKilledAgentLeavesNoPlugin kills an agent, and waits for the end of a plugin that is a program
// and of the processes that it has started. It takes about 5 s: it builds the plugin.
func TestKilledAgentLeavesNoPlugin(t *testing.T) {
	t.Parallel()
	plugins := t.TempDir()
	path := filepath.Join(plugins, "prober-plugin-tester")
	program, err := testerProgram()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, program, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".yaml", []byte("apiVersion: prober.dev/v1\nname: tester\nversion: 1.0.0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := runAgent(t, `apiVersion: v1
kind: Pod
metadata:
  name: shop
  annotations:
    prober.dev/probes: |
      web: {readiness: {plugin: {name: tester, config: {mode: pid}}, period: 2s, timeout: 1m}}
      api: {readiness: {plugin: {name: tester, config: {mode: strays}}, period: 2s, timeout: 30s}}
spec:
  containers:
  - name: web
  - name: api
`, plugins)
	said := func(s *state, container string) string {
		if p := s.probes[container+"/readiness"]; p.Last != nil {
			return strings.TrimSpace(p.Last.Output)
		}
		return ""
	}
	a.await(t, "both probes", func(s *state) string {
		if said(s, "web") == "" || said(s, "api") == "" {
			return "not yet"
		}
		return ""
	})
	var descriptors []int
	for text := range strings.FieldsSeq(said(&a.now, "web") + " " + said(&a.now, "api")) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatalf("process %d: %v", pid, err)
		}
		descriptors = append(descriptors, fd)
		t.Cleanup(func() { _ = unix.Close(fd) })
	}
	if err := a.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if len(descriptors) != 5 {
		t.Fatalf("%q and %q", said(&a.now, "web"), said(&a.now, "api"))
	}
	for i, what := range []string{"the plugin", "its child", "the process that left its group", "the process that ignores signals", "the process without open files"} {
		fds := []unix.PollFd{{Fd: int32(descriptors[i]), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(patience.Milliseconds()))
		for err == unix.EINTR {
			n, err = unix.Poll(fds, int(patience.Milliseconds()))
		}
		if n != 1 || err != nil {
			t.Errorf("%s outlives the agent: %v", what, err)
			_ = unix.PidfdSendSignal(descriptors[i], unix.SIGKILL, nil, 0)
		}
	}
}
