package marked_test

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/daeace23/prober/internal/marked"
	"github.com/daeace23/prober/internal/procgroup"
)

func TestEndFindsProcessOutsideGroup(t *testing.T) {
	mark := procgroup.NewMark()
	cmd := &exec.Cmd{Path: "/bin/sleep", Args: []string{"sleep", "1000"}, Env: []string{mark + "1"}, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if left := marked.End(procgroup.NewMark(), ""); left != 0 {
		t.Errorf("%d with another mark are left", left)
	}
	if err := syscall.Kill(cmd.Process.Pid, 0); err != nil {
		t.Fatalf("the process has another mark: %v", err)
	}
	if left := marked.End(mark); left != 0 {
		t.Errorf("%d are left", left)
	}
	_ = cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Errorf("got %v", cmd.ProcessState)
	}
}
