//go:build !linux

package process

import (
	"context"
	"os/exec"
)

// startProcess starts c. What it leaves behind in its group is killed after its end; what
// has left the group, as [endStrays] would find on Linux, goes on.
func startProcess(c *child) error {
	if err := c.cmd.Start(); err != nil {
		return err
	}
	c.started = true
	go func() {
		state, err := c.cmd.Process.Wait()
		killRest(c.cmd.Process.Pid)
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

// runGroup runs cmd until it ends or ctx does, and kills what is left of its group.
func runGroup(ctx context.Context, cmd *exec.Cmd, killed *bool, started func()) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	started()
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		killGroup(cmd.Process.Pid)
	})
	err := cmd.Wait()
	if !stop() {
		<-done
		*killed = true
	}
	killRest(cmd.Process.Pid)
	return err
}
