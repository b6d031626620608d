//go:build !linux

package process

import (
	"context"
	"os"
	"os/exec"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

// startProcess starts c. Where there are no groups to kill, c alone is.
func startProcess(c *child) error {
	if err := c.cmd.Start(); err != nil {
		return err
	}
	c.started = true
	go func() {
		state, err := c.cmd.Process.Wait()
		c.ended(func() error {
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

func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

// runGroup runs cmd until it ends or ctx does.
func runGroup(ctx context.Context, cmd *exec.Cmd, killed *bool, started func()) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	started()
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = cmd.Process.Kill()
	})
	err := cmd.Wait()
	if !stop() {
		<-done
		*killed = true
	}
	return err
}
