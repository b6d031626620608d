package cri

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/daeace23/prober/probe"
)

const (
	// maxLeft limits the commands of a container that still run after their attempts have ended. Without a limit,
	// a hanging command of a probe with a period of 100 ms leaves ten, since the runtime's minimum timeout is 1 s.
	maxLeft = 8
	// execExtra is how long a runtime may take to end a command after its timeout, as in the kubelet.
	execExtra = 2 * time.Minute
	// longestCommand is the timeout of a command without one: nothing else would end it.
	longestCommand = 10 * time.Minute
	// closeWait is how long Close waits for running commands.
	closeWait = 5 * time.Second
)

var errClosed = errors.New("the agent ends")

// commands tracks the running calls of ExecSync. Calls are not canceled with their attempts: only the runtime's
// timeout ends a command. containerd 1.6 fails to kill the command of a canceled call: "failed to kill exec:
// context canceled".
type commands struct {
	calls sync.WaitGroup

	mu     sync.Mutex
	left   map[string]int // by container: running calls whose attempts have ended
	closed bool
}

// command is one call of ExecSync.
type command struct {
	container string
	done      chan struct{} // closed after answer and err are set
	answer    *runtime.ExecSyncResponse
	err       error

	left, ended bool // guarded by commands.mu
}

// begin returns a new command for a container. It returns an error after close, or if too many commands are left.
func (c *commands) begin(container string) (*command, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch n := c.left[container]; {
	case c.closed:
		return nil, errClosed
	case n >= maxLeft:
		return nil, &probe.Error{Reason: probe.ReasonHostResources,
			Err: fmt.Errorf("%d commands of earlier attempts still run in it, at most %d may", n, maxLeft)}
	}
	c.calls.Add(1)
	return &command{container: container, done: make(chan struct{})}, nil
}

// leave records that the attempt of a command has ended before the command.
func (c *commands) leave(one *command) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one.ended {
		return
	}
	if c.left == nil {
		c.left = make(map[string]int)
	}
	one.left = true
	c.left[one.container]++
}

// end records that the runtime has answered.
func (c *commands) end(one *command) {
	c.mu.Lock()
	one.ended = true
	if one.left {
		if c.left[one.container]--; c.left[one.container] == 0 {
			delete(c.left, one.container)
		}
	}
	c.mu.Unlock()
	close(one.done)
	c.calls.Done()
}

// close refuses further commands. The returned channel is closed when all commands have ended.
func (c *commands) close() <-chan struct{} {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		c.calls.Wait()
		close(ended)
	}()
	return ended
}

// Left returns how many commands still run in containers after their attempts have ended.
func (c *Client) Left() (n int) {
	c.commands.mu.Lock()
	defer c.commands.mu.Unlock()
	for _, left := range c.commands.left {
		n += left
	}
	return n
}

// execSync starts a command in the runtime, and waits for its end until ctx ends. After ctx, the command runs until
// the timeout of the runtime.
func (c *Client) execSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (*runtime.ExecSyncResponse, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	one, err := c.commands.begin(id)
	if err != nil {
		return nil, err
	}
	if timeout <= 0 {
		timeout = longestCommand
	}
	request := &runtime.ExecSyncRequest{ContainerId: id, Cmd: cmd, Timeout: seconds(timeout)}
	go func() {
		defer c.commands.end(one)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(request.Timeout)*time.Second+execExtra)
		defer cancel()
		one.answer, one.err = c.runtime.ExecSync(ctx, request)
	}()
	select {
	case <-one.done:
		return one.answer, one.err
	case <-ctx.Done():
		c.commands.leave(one)
		return nil, ctx.Err()
	}
}

// Close waits up to 5 s for running commands, and then closes the connection, which ends all calls. Run
// must have returned. Commands may continue in their containers; Close logs their number.
func (c *Client) Close() error {
	ended := c.commands.close()
	wait := time.NewTimer(closeWait)
	defer wait.Stop()
	select {
	case <-ended:
		return c.conn.Close()
	case <-wait.C:
		c.log.Warn("commands of probes still run in their containers", "commands", c.Left())
	}
	err := c.conn.Close()
	<-ended
	return err
}
