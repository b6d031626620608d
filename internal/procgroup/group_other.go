//go:build !linux

package procgroup

import (
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// BoundAttr is [Attr]: on this system, processes do not end with the thread that started them.
func BoundAttr() *syscall.SysProcAttr { return Attr() }

// Run starts cmd, calls started unless it is nil, and waits until cmd has ended. It kills the
// group at the end of ctx, and the rest of the group when cmd has ended. It reports whether
// ctx ended first. cmd.Process is nil if cmd was not started. A process that has left the group
// is not killed.
func Run(ctx context.Context, cmd *exec.Cmd, started func()) (killed bool, err error) {
	if err := cmd.Start(); err != nil {
		return false, err
	}
	if started != nil {
		started()
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		Kill(cmd.Process.Pid)
	})
	err = cmd.Wait()
	if !stop() {
		<-done
		killed = true
	}
	killRest(cmd.Process.Pid)
	return killed, err
}

// Wait waits until cmd, which was started, has ended, and then calls ended.
func Wait(cmd *exec.Cmd, ended func()) error {
	err := cmd.Wait()
	ended()
	return err
}

// Drain does nothing: output that was not read in time is lost.
func Drain(*os.File, io.Writer, int) {}

// CPUTime returns 0: the time is not known on this system.
func CPUTime(int) time.Duration { return 0 }

// killRest kills the rest of the group of pid, which has ended. On Windows it does nothing, since there
// are no groups, and the process ID may have been reused.
func killRest(pid int) {
	if runtime.GOOS != "windows" {
		Kill(pid)
	}
}
