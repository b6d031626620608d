package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/probe"
)

// TestCheckInputNotVisibleToOtherUsers reads /proc while a check runs. If the test runs as root, it also
// reads as another user.
func TestCheckInputNotVisibleToOtherUsers(t *testing.T) {
	dir := t.TempDir()
	running, end := filepath.Join(dir, "running"), filepath.Join(dir, "end")
	for _, path := range []string{running, end} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := process.LoadCheck(process.Config{}, inputCheck(t, fmt.Sprintf(`[check_it, show, %s, %s]
env: {PGPASSWORD: "{{config.password}}"}
stdin: "{{config.password}}"`, running, end)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	h, done := prepareCheck(t, c, `{"password":"hunter2"}`), make(chan error)
	go func() {
		got, err := attempt(t, h, patience)
		if err == nil && got.Result != probe.Success {
			err = fmt.Errorf("got %+v", got)
		}
		done <- err
	}()
	pid, err := os.ReadFile(running)
	if err != nil {
		t.Fatal(err)
	}
	proc := "/proc/" + strings.TrimSpace(string(pid))
	if environ, err := os.ReadFile(proc + "/environ"); err != nil || !strings.Contains(string(environ), "PGPASSWORD=hunter2") {
		t.Errorf("environ: %q, %v", environ, err)
	}
	if cmdline, err := os.ReadFile(proc + "/cmdline"); err != nil || !strings.Contains(string(cmdline), "show") || strings.Contains(string(cmdline), "hunter2") {
		t.Errorf("cmdline: %q, %v", cmdline, err)
	}
	if os.Getuid() == 0 {
		for _, file := range []string{"environ", "fd/0"} {
			if seen := asNobody(proc + "/" + file); !strings.Contains(seen, "Permission denied") || strings.Contains(seen, "hunter2") {
				t.Errorf("another user reads %s: %q", file, seen)
			}
		}
		if seen := asNobody(proc + "/cmdline"); !strings.Contains(seen, "show") || strings.Contains(seen, "hunter2") {
			t.Errorf("another user reads cmdline: %q", seen)
		}
	}
	if err := os.WriteFile(end, []byte("\n"), 0); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// asNobody returns the contents of a file as another user reads it, or the error.
func asNobody(path string) string {
	cmd := exec.Command("cat", path)
	cmd.Dir, cmd.Env = "/", []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	return fmt.Sprintf("%s %v", out, err)
}
