package procgroup

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Capture runs c in its own process group until it ends or ctx ends, and then kills the rest of
// the group. It keeps the first limit bytes of stdout and of stderr each. It returns an error only if the command
// could not be started, as [exec.Cmd.Start] does. A process that has left the group is not killed, and its output
// is read for at most [OutputGrace].
//
// It takes less CPU time than os/exec (docs/performance.md), which registers each pipe with the poller and
// starts a goroutine to read it. Most commands end soon, and their output fits into the pipe: Capture reads it
// once, after they have ended.
func Capture(ctx context.Context, c *Command, limit int) (*Captured, error) {
	s := &streams{pause: minPoll, out: Head{Limit: limit}, err: Head{Limit: limit}}
	pid, err := s.start(c)
	if err != nil {
		return nil, err
	}
	s.follow()
	end := &Captured{}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		Kill(pid)
	})
	awaitExit(pid) // as in Run, reap the process only after the last kill
	if !stop() {
		<-done
		end.Killed = true
	}
	Kill(pid)
	status, usage := reap(pid)
	end.Status = status.ExitStatus()
	if status.Signaled() {
		end.Status = 128 + int(status.Signal())
	}
	end.CPU = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	s.finish()
	end.Stdout, end.Stderr = s.out.Bytes, s.err.Bytes
	return end, nil
}

// reap waits for the child pid, which has ended.
func reap(pid int) (status syscall.WaitStatus, usage syscall.Rusage) {
	for {
		if _, err := syscall.Wait4(pid, &status, 0, &usage); err != syscall.EINTR {
			return status, usage
		}
	}
}

// The pipes of a command that runs longer are polled, because a command blocks when it has filled a pipe.
const (
	minPoll  = 20 * time.Millisecond
	maxPoll  = 80 * time.Millisecond // the interval doubles up to it
	fullPoll = time.Millisecond      // interval after a pipe was full
	pipeSize = 64 << 10              // capacity of a pipe
)

// streams reads the output of a command.
type streams struct {
	mu       sync.Mutex
	out, err Head
	fds      [2]int // the read ends, which do not block; -1 after end of file
	timer    *time.Timer
	pause    time.Duration
	finished bool
	polls    sync.WaitGroup // running or scheduled calls of poll
}

// start starts c.
func (s *streams) start(c *Command) (pid int, err error) {
	env, err := c.environ()
	if err != nil {
		return 0, err
	}
	stdin, err := devNull()
	if err != nil {
		return 0, err
	}
	var out, errs [2]int
	if err := unix.Pipe2(out[:], unix.O_CLOEXEC); err != nil {
		return 0, os.NewSyscallError("pipe2", err)
	}
	if err := unix.Pipe2(errs[:], unix.O_CLOEXEC); err != nil {
		closeAll(out[:]...)
		return 0, os.NewSyscallError("pipe2", err)
	}
	attr := Attr()
	attr.Credential = c.User.Credential()
	pid, err = syscall.ForkExec(c.Path, c.Args, &syscall.ProcAttr{
		Dir: c.Dir, Env: env, Files: []uintptr{uintptr(stdin), uintptr(out[1]), uintptr(errs[1])}, Sys: attr,
	})
	closeAll(out[1], errs[1])
	if err != nil {
		closeAll(out[0], errs[0])
		return 0, &os.PathError{Op: "fork/exec", Path: c.Path, Err: err}
	}
	s.fds = [2]int{out[0], errs[0]}
	for _, fd := range s.fds {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK) // no other flags are set
	}
	return pid, nil
}

// Credential returns u as a process attribute; nil for nil.
func (u *User) Credential() *syscall.Credential {
	if u == nil {
		return nil
	}
	return &syscall.Credential{Uid: u.ID, Gid: u.Group, Groups: u.Groups}
}

func closeAll(fds ...int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// environ returns the environment that os/exec would pass on.
func (c *Command) environ() ([]string, error) {
	if c.Env == nil && c.Dir == "" {
		return os.Environ(), nil
	}
	for _, e := range c.Env {
		if strings.IndexByte(e, 0) >= 0 {
			return nil, errors.New("exec: environment variable contains NUL")
		}
	}
	return (&exec.Cmd{Dir: c.Dir, Env: c.Env}).Environ(), nil
}

var stdin struct {
	sync.Mutex
	opened bool
	fd     int
}

// devNull returns the file descriptor used as stdin of every command. It stays open.
func devNull() (int, error) {
	stdin.Lock()
	defer stdin.Unlock()
	if !stdin.opened {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: os.DevNull, Err: err}
		}
		stdin.fd, stdin.opened = fd, true
	}
	return stdin.fd, nil
}

// follow schedules the first poll.
func (s *streams) follow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polls.Add(1)
	s.timer = time.AfterFunc(s.pause, s.poll)
}

// poll reads the pipes, and schedules the next poll.
func (s *streams) poll() {
	defer s.polls.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return
	}
	if full := s.readLocked(); full {
		s.pause = fullPoll
	} else {
		s.pause = min(2*s.pause, maxPoll)
	}
	s.polls.Add(1)
	s.timer.Reset(s.pause)
}

// finish reads the rest of the streams and closes them. It is called after the group was killed, so that only a
// process that has left the group can hold a stream open.
func (s *streams) finish() {
	defer s.polls.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = true
	if s.timer.Stop() {
		s.polls.Done()
	}
	pause := fullPoll
	for start := time.Now(); ; time.Sleep(pause) {
		if full := s.readLocked(); !full {
			pause = min(2*pause, minPoll)
		}
		if s.fds[0] < 0 && s.fds[1] < 0 || time.Since(start) > OutputGrace {
			break
		}
	}
	for _, fd := range s.fds {
		if fd >= 0 {
			closeAll(fd)
		}
	}
}

// readLocked reads the bytes in the pipes. It closes pipes at end of file, and reports whether a pipe was
// full.
func (s *streams) readLocked() (full bool) {
	for i, h := range [2]*Head{&s.out, &s.err} {
		if s.fds[i] < 0 {
			continue
		}
		ended, filled := readPipe(s.fds[i], h)
		if ended {
			closeAll(s.fds[i])
			s.fds[i] = -1
		}
		full = full || filled
	}
	return full
}

// readPipe reads the bytes in a pipe. It reports whether the pipe is at end of file, and whether it was full.
func readPipe(fd int, h *Head) (ended, full bool) {
	var part [4 << 10]byte
	for left := pipeSize; left > 0; {
		n, err := syscall.Read(fd, part[:])
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return err != syscall.EAGAIN, false
		case n == 0:
			return true, false
		default:
			_, _ = h.Write(part[:n])
			left -= n
		}
	}
	return false, true
}
