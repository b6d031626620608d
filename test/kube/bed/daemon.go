//go:build linux

package bed

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// waitLimit is the timeout of every wait. It is much longer than any of them takes.
const waitLimit = 2 * time.Minute

// Daemon is a program of the cluster, which tests may stop and start.
type Daemon struct {
	name  string
	path  string
	args  []string
	ready func(ctx context.Context) error // nil if it is ready at once

	mu        sync.Mutex
	cmd       *exec.Cmd     // nil if it was not started, or was stopped
	ended     chan struct{} // closed when cmd has ended
	restarted time.Time     // time of the last start, except the first one
}

// Start starts the program, and waits until it is ready.
func (d *Daemon) Start(t testing.TB) {
	t.Helper()
	if err := d.begin(); err != nil {
		t.Fatal(err)
	}
	if err := d.await(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Stop ends the program with SIGTERM, and returns when it has ended.
func (d *Daemon) Stop(t testing.TB) {
	t.Helper()
	d.end(syscall.SIGTERM)
}

// Kill ends the program with SIGKILL, and returns when it has ended.
func (d *Daemon) Kill(t testing.TB) {
	t.Helper()
	d.end(syscall.SIGKILL)
}

// PID returns the process ID, or 0 if the program does not run.
func (d *Daemon) PID() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cmd == nil {
		return 0
	}
	return d.cmd.Process.Pid
}

// begin starts the program. Its output is appended to its log.
func (d *Daemon) begin() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cmd != nil {
		return fmt.Errorf("%s runs already", d.name)
	}
	log, err := os.OpenFile(d.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(d.path, d.args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, "/"
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its log says why
		close(ended)
	}()
	if d.ended != nil {
		d.restarted = time.Now()
	}
	d.cmd, d.ended = cmd, ended
	return nil
}

// await waits until the program is ready. It returns an error if the program ends, or after waitLimit.
func (d *Daemon) await(ctx context.Context) error {
	d.mu.Lock()
	ended := d.ended
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	for d.ready != nil {
		err := d.ready(ctx)
		if err == nil {
			break
		}
		select {
		case <-ended:
			return fmt.Errorf("%s has ended:\n%s", d.name, d.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s does not become ready: %w\n%s", d.name, err, d.tail())
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// end sends a signal to the program and waits for its end. After 30 s it sends SIGKILL.
func (d *Daemon) end(signal syscall.Signal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Signal(signal)
	select {
	case <-d.ended:
	case <-time.After(30 * time.Second):
		_ = d.cmd.Process.Kill()
		<-d.ended
	}
	d.cmd = nil
}

func (d *Daemon) log() string { return filepath.Join(os.Getenv(dirVar), d.name+".log") }

// tail returns the last lines of the log.
func (d *Daemon) tail() []byte {
	data, err := os.ReadFile(d.log())
	if err != nil {
		return nil
	}
	lines := slices.DeleteFunc(bytes.SplitAfter(data, []byte("\n")), func(line []byte) bool {
		// The kubelet logs this every ten seconds, because /var/lib is a tmpfs.
		return bytes.Contains(line, []byte("cannot find filesystem info for device"))
	})
	return bytes.Join(lines[max(0, len(lines)-40):], nil)
}
