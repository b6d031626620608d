package process

import (
	"context"
	"os/exec"
	"runtime"
	"syscall"
)

// ownGroup makes a process the leader of a group, and has the kernel kill it when the
// thread ends that started it.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// startProcess starts c. The thread that does it stays until c has ended
// (golang/go#27505: a process would be killed with the thread that started it, which the
// runtime may end at any time).
func startProcess(c *child) error {
	begun := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		if err == nil {
			c.mu.Lock()
			c.started = true
			c.mu.Unlock()
		}
		begun <- err
		if err != nil {
			return
		}
		awaitExit(c.cmd.Process.Pid)
		killGroup(c.cmd.Process.Pid) // what it has left behind
		c.ended(c.cmd.Wait)
	}()
	return <-begun
}

// killGroup kills every process of the group of pid. That the group is empty is no error.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// awaitExit waits until the child pid has ended, and leaves it to be reaped: until then
// its number, which is the group's, cannot be given to another.
func awaitExit(pid int) {
	const idTypePID = 1 // P_PID of waitid(2)
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, idTypePID, uintptr(pid), 0, syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return
		}
	}
}

// runGroup runs cmd in a group of its own until it ends or ctx does, and kills what is
// left of the group. started is called when cmd has been started, and killed set when ctx
// has ended it.
func runGroup(ctx context.Context, cmd *exec.Cmd, killed *bool, started func()) error {
	runtime.LockOSThread() // see startProcess
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return err
	}
	started()
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		killGroup(cmd.Process.Pid)
	})
	awaitExit(cmd.Process.Pid)
	if !stop() {
		<-done
		*killed = true
	}
	killGroup(cmd.Process.Pid)
	return cmd.Wait()
}
