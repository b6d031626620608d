package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// leaking starts prober like a program that leaks a descriptor to its children.
func leaking(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path := filepath.Join(t.TempDir(), "private")
	if err := os.WriteFile(path, []byte("private\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	private, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = private.Close() })
	cmd := exec.Command("prober", args...)
	cmd.ExtraFiles, cmd.Stderr = []*os.File{private, private, private, private}, os.Stderr // 3 to 6
	return cmd
}

func TestExecProbesInheritNoDescriptors(t *testing.T) {
	out, err := leaking(t, "probe", "exec", "-o", "json", "--timeout", "60s", "--", "sh", "-c", "cat <&6; echo done").Output()
	if text := string(out); err != nil || strings.Contains(text, "private") || !strings.Contains(text, "done") {
		t.Errorf("got %s, %v", text, err)
	}
}

func TestContainersInheritNoDescriptors(t *testing.T) {
	pod := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(pod, []byte(`apiVersion: v1
kind: Pod
metadata: {name: shop}
spec:
  containers:
  - name: web
    command: [sh, -c, 'cat <&6; echo done; sleep 600']
`), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := leaking(t, "run", "-f", pod, "--listen", "127.0.0.1:0", "--log-level", "error")
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(stdout); lines.Scan() && !strings.Contains(lines.Text(), "done"); {
		if strings.Contains(lines.Text(), "private") {
			t.Errorf("the container read %s", lines.Text())
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
