package builtin

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// ownGroup makes a child the leader of a new process group.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// waitGroup waits for the end of c, kills its group at the end of ctx, and in any
// case what is left of it then. It reports whether ctx ended first.
func waitGroup(ctx context.Context, c *exec.Cmd) (killed bool, err error) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		killGroup(c.Process.Pid)
	})
	// The process is reaped only after the last kill: until then its number, which is
	// the group's, cannot be given to another.
	awaitExit(c.Process.Pid)
	if !stop() {
		<-done
		killed = true
	}
	killGroup(c.Process.Pid)
	return killed, c.Wait()
}

// killGroup kills every process of the group of pid. That the group is empty is no
// error.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// awaitExit waits until the child pid has ended, and leaves it to be reaped.
func awaitExit(pid int) {
	const idTypePID = 1 // P_PID of waitid(2)
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, idTypePID, uintptr(pid), 0, syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return
		}
	}
}

// exitStatus returns the code of a process as a shell would.
func exitStatus(s *os.ProcessState) int {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}

// drain moves what is in a pipe already to head, as far as that has room, and waits for
// nothing more.
func drain(pipe *os.File, head *headBuffer) {
	_ = pipe.SetReadDeadline(time.Time{})
	raw, err := pipe.SyscallConn()
	if err != nil {
		return
	}
	part := make([]byte, 4<<10)
	for len(head.bytes) < head.limit {
		n := 0
		err := raw.Read(func(fd uintptr) bool {
			n, _ = syscall.Read(int(fd), part) // the pipe does not block
			return true
		})
		if err != nil || n <= 0 {
			return
		}
		_, _ = head.Write(part[:n])
	}
}
