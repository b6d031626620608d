//go:build !linux

package procgroup

import (
	"context"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// BoundAttr is [Attr]: nothing ends a process with the thread that started it.
func BoundAttr() *syscall.SysProcAttr { return Attr() }

// Start starts cmd and calls started. When the process has ended, what is left of its group is
// killed, and ended is called with a function that returns its error. What has left the group
// goes on.
func Start(cmd *exec.Cmd, started func(), ended func(wait func() error)) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	started()
	go func() {
		state, err := cmd.Process.Wait()
		killRest(cmd.Process.Pid)
		ended(func() error {
			if err == nil && !state.Success() {
				return exitError(state.String())
			}
			return err
		})
	}()
	return nil
}

type exitError string

func (e exitError) Error() string { return string(e) }

// Run starts cmd, calls started and then [Wait].
func Run(ctx context.Context, cmd *exec.Cmd, started func()) (killed bool, err error) {
	if err := cmd.Start(); err != nil {
		return false, err
	}
	started()
	return Wait(ctx, cmd)
}

// Wait waits until cmd has ended, kills its group at the end of ctx, and in any case what is
// left of it then. It reports whether ctx ended first.
func Wait(ctx context.Context, cmd *exec.Cmd) (killed bool, err error) {
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

// ExitStatus returns the code of a process.
func ExitStatus(s *os.ProcessState) int { return s.ExitCode() }

// Drain does nothing: what was not read in time is lost.
func Drain(*os.File, io.Writer, int) {}

// CPUTime returns 0: it is not known here.
func CPUTime(int) time.Duration { return 0 }

// killMarked finds nobody: other systems do not show the environment of a process.
func killMarked([]string) (found, refused int) { return 0, 0 }
